"""Detection of the clock's tick."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from autotune.traces.ticks import resolution


def _times(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(sorted(values), np.int64)


def test_exact_ticks_are_found() -> None:
    """Times on a grid give the grid, wherever it starts."""
    assert resolution(_times([17 + 3_000 * k for k in range(20)])) == 3_000


def test_jitter_of_a_unit_does_not_hide_the_tick() -> None:
    """Ticks that were rounded to a unit beside their place are still seen."""
    assert resolution(_times([3_000 * k - (k % 3 == 2) for k in range(60)])) == 3_000


def test_irregular_times_give_the_unit() -> None:
    """Times without a grid have the unit as their tick."""
    random = np.random.default_rng(0)
    assert resolution(_times(random.integers(0, 10**6, 500).tolist())) == 1


def test_few_times_tell_nothing() -> None:
    """With a handful of distinct times any distance may be chance, so the unit is the answer."""
    assert resolution(_times([0, 5_000, 10_000])) == 1
    assert resolution(_times([7])) == 1


@given(st.lists(st.integers(0, 10**12), min_size=1), st.integers(1, 10**6))
def test_scaled_times_have_a_scaled_tick(values: list[int], factor: int) -> None:
    """Multiplying all times by a factor multiplies a known tick by it."""
    tick, scaled = resolution(_times(values)), resolution(_times([value * factor for value in values]))
    assert scaled in {1, tick * factor}
