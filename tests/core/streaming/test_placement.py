"""Which layers are streamed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import StreamingError
from autotune.core.streaming import Placement, resident_count, streamed_layers


@given(st.integers(1, 80), st.data(), st.sampled_from(Placement))
def test_as_many_distinct_layers_as_asked_for_in_order(
    n_layers: int, data: st.DataObject, placement: Placement
) -> None:
    """Every placement gives the number asked for, ascending and without repetition."""
    n_streamed = data.draw(st.integers(0, n_layers))
    candidates = [3 * i for i in range(n_layers)]
    chosen = streamed_layers(candidates, n_streamed, placement)
    assert len(chosen) == n_streamed
    assert list(chosen) == sorted(set(chosen) & set(candidates))


@given(st.integers(1, 80), st.data())
def test_even_placement_leaves_gaps_that_differ_by_at_most_one(n_layers: int, data: st.DataObject) -> None:
    """Around the ring of a step, the distances between streamed layers are as equal as whole numbers allow."""
    n_streamed = data.draw(st.integers(1, n_layers))
    chosen = streamed_layers(range(n_layers), n_streamed)
    around = [*chosen[1:], chosen[0] + n_layers]
    gaps = {after - before for before, after in zip(chosen, around, strict=True)}
    assert max(gaps) - min(gaps) <= 1


def test_rows_lie_at_the_ends() -> None:
    """First and last are one row at that end."""
    assert streamed_layers(range(6), 2, Placement.FIRST) == (0, 1)
    assert streamed_layers(range(6), 2, Placement.LAST) == (4, 5)


def test_a_share_is_counted_as_written() -> None:
    """0.3 of 10 layers is 3 of them, and 0.29 of 100 is 29, where binary fractions say one fewer."""
    assert resident_count(10, 0.3) == 3
    assert resident_count(100, 0.29) == 29
    assert [resident_count(12, p) for p in (0.0, 0.25, 0.5, 0.75, 1.0)] == [0, 3, 6, 9, 12]


def test_impossible_numbers_are_refused() -> None:
    """More layers than there are, and shares outside 0 to 1, are errors."""
    for n_streamed in (-1, 4):
        with pytest.raises(StreamingError):
            streamed_layers(range(3), n_streamed)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(StreamingError):
            resident_count(3, share)
