"""The pipeline that can be followed by hand."""

from __future__ import annotations

import pytest

from autotune.costs.toy_pipeline import toy_pipeline


def test_prefetching_is_worth_almost_twofold() -> None:
    """240 steps take 527.0 without prefetch and 288.0 with it: 1.83 times as long."""
    alone, overlapped = toy_pipeline(prefetch=False), toy_pipeline(prefetch=True)
    assert (alone, overlapped) == (527.0, 288.0)
    assert round(alone / overlapped, 2) == 1.83


def test_with_room_for_all_blocks_each_is_loaded_once() -> None:
    """Twelve loads from the SSD: 9 on top of computing, of which overlap leaves 2 in step 0 and a half in step 4."""
    assert toy_pipeline(prefetch=False, device_blocks=12) == 240 + 12 * 1.5 / 2
    assert toy_pipeline(prefetch=True, device_blocks=12) == 240 + 2.0 + 0.5


@pytest.mark.parametrize("prefetch", [False, True])
def test_first_steps_by_hand(prefetch: bool) -> None:
    """Step 0 loads blocks 0, 6 and 11 from the SSD, which takes 2.25; a fourth one ahead makes it 3."""
    assert toy_pipeline(1, prefetch=prefetch) == (3.0 if prefetch else 3.25)


def test_without_a_host_every_load_is_from_the_ssd() -> None:
    """A host that holds nothing makes loads dearer, with and without prefetch."""
    for prefetch in (False, True):
        assert toy_pipeline(prefetch=prefetch, host_blocks=0) > toy_pipeline(prefetch=prefetch)
