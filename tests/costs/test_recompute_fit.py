"""Seconds of prefill from observations: the coefficients are found again, whatever lies among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.costs.recompute import PrefillSamples, RecomputeModel, attended_pairs, fit_recompute
from autotune.costs.robust import Column
from autotune.testing.streams import make_costs

FIXED_S, LINEAR_S, QUADRATIC_S = 0.01, 4e-5, 7e-8
TABLE = make_costs(prefill_linear_s=1e-5, prefill_quadratic_s=1e-8)  # off by 4 and by 7


def observed(
    seed: int, n: int, *, noise: float = 0.1, outliers: float = 0.0, fixed_s: float = FIXED_S
) -> PrefillSamples:
    """Prompts of up to 2,000 tokens, half of them with something found; outliers take up to 20 times as long."""
    draw = np.random.default_rng(seed)
    computed = draw.integers(50, 2_000, n).astype(np.float64)
    found = (draw.integers(0, 2_000, n) * (draw.random(n) < 0.5)).astype(np.float64)
    seconds = fixed_s + LINEAR_S * computed + QUADRATIC_S * attended_pairs(found, computed)
    seconds = seconds * np.exp(noise * draw.standard_normal(n))
    slow = draw.random(n) < outliers
    return PrefillSamples.of(found, computed, np.where(slow, seconds * draw.uniform(1.5, 20.0, n), seconds))


def truth(computed: float) -> float:
    """Seconds of that many tokens from nothing, the fixed part left out."""
    return LINEAR_S * computed + QUADRATIC_S * computed * (computed + 1.0) / 2.0


def coverage(n: int, outliers: float, table: CostProfile = TABLE, runs: int = 60) -> Column:
    """Share of simulations whose intervals hold the three coefficients, and the seconds of 1,000 tokens."""
    inside = np.zeros(4)
    for seed in range(runs):
        fit = fit_recompute(observed(seed, n, outliers=outliers), table)
        bounds = [fit.fit.interval(column) for column in range(3)] + [fit.seconds(0, 1_000)]
        for place, true in enumerate((FIXED_S, LINEAR_S, QUADRATIC_S, truth(1_000))):
            inside[place] += bounds[place][1] <= true <= bounds[place][2]
    return inside / runs


@pytest.mark.parametrize("outliers", [0.0, 0.2, 0.35])
def test_coefficients_are_found_again(outliers: float) -> None:
    """Of 1,000 noisy prefills, up to a third of which queued, each coefficient comes out within a few percent."""
    fit = fit_recompute(observed(3, 1_000, outliers=outliers), TABLE)
    assert fit.fixed_s == pytest.approx(FIXED_S, rel=0.1)
    assert fit.linear_s == pytest.approx(LINEAR_S, rel=0.06)
    assert fit.quadratic_s == pytest.approx(QUADRATIC_S, rel=0.04)
    assert fit.samples == 1_000


def test_queued_prefills_would_mislead_least_squares() -> None:
    """The same data lead plain least squares astray, so what the test above shows is the robustness."""
    samples = observed(3, 1_000, outliers=0.2)
    columns = np.stack([samples.requests, samples.tokens, samples.pairs], axis=1)
    plain = np.linalg.lstsq(columns, samples.seconds, rcond=None)[0]
    assert abs(plain[1] / LINEAR_S - 1.0) > 0.25


@pytest.mark.parametrize(("n", "outliers"), [(10, 0.0), (30, 0.2), (100, 0.0), (300, 0.2)])
def test_intervals_cover_the_truth(n: int, outliers: float) -> None:
    """Of 60 simulations, at least 86 % have each true coefficient in its 95 % interval, and so the seconds of a run."""
    assert coverage(n, outliers).min() >= 0.86


def test_thin_evidence_widens() -> None:
    """Beside a table that is about right, the interval of the seconds of 1,000 tokens shrinks with every tenfold."""
    table = make_costs(prefill_linear_s=1.2 * LINEAR_S, prefill_quadratic_s=0.8 * QUADRATIC_S)
    spans = []
    for n in (0, 3, 30, 300):
        samples = observed(1, n, fixed_s=0.0)
        value, low, high = fit_recompute(samples, table, intercept=False).seconds(0, 1_000)
        spans.append((high - low) / value)
    assert spans == sorted(spans, reverse=True)
    assert spans[0] > 1.2
    assert spans[-1] < 0.1


def test_without_observations_the_table_stands() -> None:
    """Nothing seen: the table's coefficients, its source, no samples and an interval of a factor of two."""
    fit = fit_recompute(observed(1, 0), TABLE)
    assert (fit.linear_s, fit.quadratic_s) == pytest.approx((1e-5, 1e-8))
    assert fit.source == TABLE.source
    linear = fit.estimates(None)[1]
    assert (linear.name, linear.samples, linear.age_s) == ("prefill_linear_s", 0, None)
    assert linear.low < 0.1 * linear.value
    assert linear.high > 1.9 * linear.value


def test_collinear_observations_keep_the_table_in_proportion() -> None:
    """Prompts of one length cannot tell the terms apart: their sum is right, each interval is wide and holds it."""
    computed = np.full(200, 1_000.0)
    seconds = truth(1_000) * np.exp(0.05 * np.random.default_rng(5).standard_normal(200))
    fit = fit_recompute(PrefillSamples.of(0 * computed, computed, seconds), TABLE, intercept=False)
    value, low, high = fit.seconds(0, 1_000)
    assert value == pytest.approx(truth(1_000), rel=0.02)
    assert (high - low) / value < 0.05
    for column, true in ((1, LINEAR_S), (2, QUADRATIC_S)):
        value, low, high = fit.fit.interval(column)
        assert low <= true <= high
        assert (high - low) / value > 0.5
    assert "weight of the table times" in fit.source


def test_the_source_says_how_much_of_the_table_is_left() -> None:
    """With many observations of many lengths nothing of the table is left."""
    assert "linear 0%, quadratic 0% (made by hand)" in fit_recompute(observed(1, 1_000), TABLE).source


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 10_000), st.floats(1e-6, 1e4)), max_size=12),
    st.booleans(),
)
def test_nothing_makes_a_coefficient_negative(rows: list[tuple[int, int, float]], intercept: bool) -> None:
    """Whatever was observed, coefficients are finite and not negative, and lie in intervals that are not either."""
    columns = np.array(rows, np.float64).reshape(-1, 3).T
    fit = fit_recompute(PrefillSamples.of(*columns), TABLE, intercept=intercept)
    for estimate in fit.estimates(0.0):
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high < np.inf
    value, low, high = fit.seconds(100, 1_000)
    assert 0.0 <= low <= value <= high < np.inf


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_pairs_of_a_continued_prompt(found: int, computed: int) -> None:
    """What is computed after a found part attends to as many pairs as the whole less the part."""
    whole = (found + computed) * (found + computed + 1) / 2
    assert float(attended_pairs(np.float64(found), np.float64(computed))) == whole - found * (found + 1) / 2


def test_sums_over_several_requests_give_the_same_coefficients() -> None:
    """Counters that add up five prefills each lead to the same coefficients as the prefills themselves."""
    single = observed(2, 1_000, noise=0.05)
    columns = (single.requests, single.tokens, single.pairs, single.seconds)
    fit = fit_recompute(PrefillSamples(*(column.reshape(-1, 5).sum(axis=1) for column in columns)), TABLE)
    assert fit.linear_s == pytest.approx(LINEAR_S, rel=0.1)
    assert fit.quadratic_s == pytest.approx(QUADRATIC_S, rel=0.1)


def test_the_model_forgets_what_left_its_window() -> None:
    """After a change of speed the old observations leave with their age; what has no seconds never came in."""
    model = RecomputeModel(TABLE, max_samples=1_000, window_s=100.0)
    draw = np.random.default_rng(4)
    for at_s in range(400):
        speed = 1.0 if at_s < 200 else 3.0
        computed = int(draw.integers(50, 2_000))
        model.observe(float(at_s), 0, computed, speed * truth(computed))
        model.observe(float(at_s), 0, computed, 0.0)
    assert model.fit(150.0).samples > model.fit(399.0).samples == 100
    assert model.fit(399.0).linear_s == pytest.approx(3.0 * LINEAR_S, rel=0.05)
    assert model.window.age_s(409.0) == pytest.approx(10.0)
    model.window.clear()
    assert model.fit(399.0).samples == 0
    assert model.window.age_s(409.0) is None


def test_columns_that_mean_nothing_are_refused() -> None:
    """Columns of two lengths, and values that are negative or no numbers, are named."""
    with pytest.raises(ConfigError, match="have one length"):
        PrefillSamples.of([1.0, 2.0], [1.0], [1.0])
    with pytest.raises(ConfigError, match="none negative"):
        PrefillSamples.of([1.0], [1.0], [-1.0])
    with pytest.raises(ConfigError, match="at least one sample"):
        RecomputeModel(TABLE, max_samples=0)


@pytest.mark.parametrize("n", [30, 300])
def test_a_table_of_the_wrong_shape_gives_way(n: int) -> None:
    """A quadratic term that is 700 times too small in the table does not hold the fit; intervals cover the truth."""
    wrong = make_costs(prefill_linear_s=1e-5, prefill_quadratic_s=1e-10)
    fit = fit_recompute(observed(6, n, noise=0.2, outliers=0.1), wrong)
    assert fit.seconds(0, 2_000)[0] == pytest.approx(truth(2_000), rel=0.15)
    assert coverage(n, 0.1, wrong, runs=30).min() >= 0.8
