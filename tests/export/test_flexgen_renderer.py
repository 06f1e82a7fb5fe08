"""Policy documents as FlexGen's flags."""

from __future__ import annotations

from fractions import Fraction

import pytest
from export_documents import document, export, notes
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.export.flexgen import check, split
from autotune.export.renderer import Settings


def test_percent_has_weights_cache_and_activations() -> None:
    """Half of the cache on the GPU, half on the CPU; weights and activations stay on the GPU."""
    rendered = export("flexgen", document(streaming=(0.5, 1)), batch_size=48)
    assert rendered.text == "--gpu-batch-size 48 --num-gpu-batches 1 --percent 100 0 50 50 100 0"
    assert rendered.settings["p_eff"] == 0.5


def test_no_prefetch_is_no_overlap() -> None:
    """Depth 0 switches overlap off; a depth above 1 is named as left out."""
    assert export("flexgen", document(streaming=(0.5, 0))).text.endswith("--overlap false")
    assert "not expressed: prefetch depth 3" in notes("flexgen", document(streaming=(0.5, 3)))


@pytest.mark.parametrize(
    ("resident", "batch", "percent", "effective"),
    [(0.0, 4, 0, 0), (1.0, 4, 100, 1), (0.5, 4, 50, Fraction(1, 2)), (0.34, 3, 34, Fraction(1, 3))],
)
def test_percentage_gives_whole_sequences(resident: float, batch: int, percent: int, effective: Fraction) -> None:
    """The percentage is the smallest one that places as many whole sequences."""
    assert split(resident, batch) == (percent, effective)


@pytest.mark.parametrize(("resident", "batch", "remedy"), [(0.2, 4, "--batch-size 5"), (0.9, 1, "--batch-size 10")])
def test_share_that_sequences_miss_is_refused(resident: float, batch: int, remedy: str) -> None:
    """P far from what whole sequences give is an error with the batch that would give it."""
    with pytest.raises(ConfigError, match=rf"p_eff 0; use {remedy} or a multiple, or resident_frac 0"):
        export("flexgen", document(streaming=(resident, 1)), batch_size=batch)


@given(st.integers(0, 1000), st.integers(1, 5000))
def test_device_never_holds_more_than_the_share(permille: int, batch: int) -> None:
    """What the engine places at the percentage is p_eff, at most p, and at most a twentieth below it."""
    try:
        percent, effective = split(permille / 1000, batch)
    except ConfigError:
        assert batch < 100
        return
    assert 0 <= percent <= 100
    assert effective == Fraction(percent * batch // 100, batch)
    assert Fraction(permille, 1000) - Fraction(1, 20) <= effective <= Fraction(permille, 1000)


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        ([100, 0, 50], "takes six numbers"),
        ([100, 0, 50, 50, 100, 0, 0], "takes six numbers"),
        ([100, 0, 60, 50, 100, 0], "of the cache on GPU and CPU are at most 100 together; got 60 and 50"),
        ([100, 0, -1, 50, 100, 0], "whole numbers from 0 to 100"),
        ([100, 0, 0.5, 50, 100, 0], "whole numbers from 0 to 100"),
    ],
)
def test_what_flexgen_takes_by_mistake_is_refused(percent: list[float], said: str) -> None:
    """Another number of percentages and sums over 100 are errors."""
    given_settings: Settings = {"percent": list(percent)}
    with pytest.raises(ConfigError, match=said):
        check(given_settings)
