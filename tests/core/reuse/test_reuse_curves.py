"""Curves of a class and the gain of keeping a block, against numerical integration."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES, N_EDGES
from autotune.core.reuse import HorizonModel, ReuseModel, curves, gain_table
from autotune.core.reuse.curves import exp_minus
from autotune.core.reuse.gain import bin_ages_s

EDGES = tuple(np.geomspace(0.1, 3000.0, N_EDGES).tolist())


def with_hazard(hazard: npt.NDArray[np.float64]) -> ReuseModel:
    """A model of which only the curves matter."""
    nothing = HorizonModel(60.0, 0, ())
    return ReuseModel((), nothing, nothing, (0, 0, 0), ((0, 0, 0),) * 4, EDGES, hazard)


@st.composite
def hazards(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """Hazards of very different sizes, some of them none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hazard = 10.0 ** rng.uniform(-7.0, 0.5, (N_CLASSES, N_AGE_BINS))
    return np.where(rng.random(hazard.shape) < 0.1, 0.0, hazard)


def test_constant_hazard_is_the_exponential_distribution() -> None:
    """S = exp(-h t), A = (1 - S) / h, at edges, between them and at infinity."""
    model = with_hazard(np.full((N_CLASSES, N_AGE_BINS), 0.01))
    ages = np.array([0.0, 0.05, EDGES[7], 100.0, 5000.0, np.inf])
    told = curves(model, ages)
    np.testing.assert_allclose(told.survival[3], np.exp(-0.01 * ages), rtol=1e-12)
    np.testing.assert_allclose(told.stay_s[3], (1.0 - np.exp(-0.01 * ages)) / 0.01, rtol=1e-11)
    np.testing.assert_allclose(told.reused, 1.0 - told.survival)


@settings(max_examples=5, deadline=None)
@given(hazards())
def test_curves_are_the_integrals_of_the_hazard(hazard: npt.NDArray[np.float64]) -> None:
    """S is that of a sum over a grid with every edge on it, and A lies between the sums of both ends of its steps."""
    grid = np.unique(np.concatenate([[0.0], np.geomspace(0.01, 4000.0, 500), EDGES]))
    told = curves(with_hazard(hazard), grid)
    middles, widths = 0.5 * (grid[1:] + grid[:-1]), np.diff(grid)
    at = hazard[:, np.searchsorted(EDGES, middles, side="right")]
    survival = np.exp(-np.concatenate([np.zeros((N_CLASSES, 1)), np.cumsum(at * widths, axis=1)], axis=1))
    np.testing.assert_allclose(told.survival, survival, rtol=1e-9, atol=1e-12)
    lower, upper = (np.cumsum(widths * some, axis=1) for some in (survival[:, 1:], survival[:, :-1]))
    slack = 1e-9 * (1.0 + upper)
    assert (told.stay_s[:, 1:] >= lower - slack).all()
    assert (told.stay_s[:, 1:] <= upper + slack).all()


def plan(hazard: list[float], start_s: float, end_s: float, device_age_s: float) -> float:
    """Reuses after the device let go, per second of stay, if a block of age ``start_s`` is kept to ``end_s``."""
    stops = sorted({end_s, *(edge for edge in (*EDGES, device_age_s) if start_s < edge < end_s)})
    alive, gained, stay_s, at = 1.0, 0.0, 0.0, start_s
    for stop in stops:
        rate = hazard[sum(edge <= at for edge in EDGES)]
        lost = -math.expm1(-rate * (stop - at))
        gained += alive * lost * (at >= device_age_s)
        stay_s += alive * (lost / rate if rate else stop - at)
        alive, at = alive * (1.0 - lost), stop
    return gained / stay_s


@pytest.mark.parametrize("device_age_s", [0.0, 3.0, 250.0])
@settings(max_examples=4, deadline=None)
@given(hazard=hazards())
def test_gain_is_the_best_plan(hazard: npt.NDArray[np.float64], device_age_s: float) -> None:
    """No end of the stay, near or far, beats the gain, and one of them reaches it."""
    gains = gain_table(with_hazard(hazard), device_age_s)
    ages = bin_ages_s(EDGES).tolist()
    ends = (*EDGES, *np.geomspace(0.01, 1e5, 30).tolist(), 1e12)
    for c, k in ((0, 0), (3, 20), (7, 33), (9, 41), (15, 48)):
        rates = hazard[c].tolist()
        reached = [plan(rates, ages[k], end, device_age_s) for end in (ages[k] + 1e-6, *ends) if end > ages[k]]
        assert max(reached) == pytest.approx(gains[c, k], rel=1e-4, abs=1e-12)
        assert max(reached) <= gains[c, k] * (1.0 + 1e-9) + 1e-12


def test_gain_of_a_constant_hazard_is_the_hazard() -> None:
    """Where reuse comes at a constant rate, every second of keeping is worth that rate."""
    gains = gain_table(with_hazard(np.full((N_CLASSES, N_AGE_BINS), 0.02)), 0.0)
    np.testing.assert_allclose(gains, 0.02, rtol=1e-9)


def test_nothing_is_gained_where_nothing_comes_back() -> None:
    """A hazard of 0 has gain 0 at every age."""
    assert (gain_table(with_hazard(np.zeros((N_CLASSES, N_AGE_BINS))), 5.0) == 0.0).all()


def test_reuse_before_the_device_lets_go_gains_nothing() -> None:
    """The later the device evicts, the less the host gains from young blocks, and old ones stay as they are."""
    model = with_hazard(np.full((N_CLASSES, N_AGE_BINS), 0.02))
    without, with_device = gain_table(model, 0.0), gain_table(model, 50.0)
    young = bin_ages_s(EDGES) < 50.0
    assert (with_device[:, young] < without[:, young]).all()
    assert (with_device[:, ~young] == without[:, ~young]).all()


@given(st.lists(st.floats(0.0, 1e4) | st.sampled_from([0.0, 708.0, 709.0, 1e300, math.inf]), min_size=1))
def test_an_array_and_single_numbers_give_the_same_bits(values: list[float]) -> None:
    """What is computed for all ages at once equals the scalar function, which engines use, one by one."""
    one_by_one = [exp2_exactly_rounded_ops(-value * 1.4426950408889634) for value in values]
    np.testing.assert_array_equal(exp_minus(np.array(values)), one_by_one)
