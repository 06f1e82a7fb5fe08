"""Calibration: the error of probabilities on later rows, and when a correction is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learned_rows import QUICK, SPAN_S, make_rows

from autotune.core.reuse import HorizonModel, ReuseModel, probability, score_rows
from autotune.costs.reuse import NotEnough, Rows, fit_reuse
from autotune.costs.reuse.calibration import Reliability, calibrated, isotonic, reliability, reliability_of, shifted
from autotune.costs.reuse.trees import whole

ROWS = make_rows(12_000)
HALF_S = SPAN_S / 2


def after(rows: Rows, start_s: float, end_s: float) -> Rows:
    """Rows of a part of the time, with all that became of them."""
    return rows.take(np.flatnonzero((rows.time_s > start_s) & (rows.time_s <= end_s)))


@pytest.fixture(scope="module")
def model() -> ReuseModel:
    """Fitted on the first half of the time."""
    fitted = fit_reuse(ROWS.as_known_at(HALF_S), HALF_S, QUICK, 0)
    assert isinstance(fitted, ReuseModel)
    return fitted


def test_unseen_time_is_told_truly(model: ReuseModel) -> None:
    """On the second half, which the model never saw, probabilities are off by less than 0.05 on average."""
    for horizon in (model.near, model.far):
        told = reliability(horizon, after(ROWS, HALF_S, SPAN_S), SPAN_S)
        assert isinstance(told, Reliability)
        assert told.ece < 0.05


def test_error_by_hand() -> None:
    """Two bins of equal blocks: told 0.2 and seen 0.5, told 0.8 and seen 0.9, so the mean error is 0.2."""
    told = reliability_of(np.array([0.8, 0.2]), came_back=np.array([9.0, 5.0]), blocks=np.array([10.0, 10.0]), n_bins=2)
    assert told.told.tolist() == [0.2, 0.8]
    assert told.seen.tolist() == [0.5, 0.9]
    assert told.ece == pytest.approx(0.2)
    assert told.brier == pytest.approx((5 * 0.64 + 5 * 0.04 + 9 * 0.04 + 1 * 0.64) / 20)


def test_a_level_that_is_off_is_shifted(model: ReuseModel) -> None:
    """A model that tells too much everywhere gets another base, and then tells on average what is seen."""
    high = replace(model.far, base=model.far.base + whole(1.5))
    newest, later = after(ROWS, HALF_S, 0.75 * SPAN_S), after(ROWS, 0.75 * SPAN_S, SPAN_S)
    matured = newest.older_than(high.horizon_s, SPAN_S)
    corrected = shifted(high, matured)
    told = probability(corrected, score_rows(corrected, matured.features))
    seen = matured.reused_within(high.horizon_s).sum()
    assert (told * matured.n_blocks).sum() == pytest.approx(seen, rel=1e-9)
    chosen = calibrated(high, newest, later, SPAN_S)
    assert chosen.base != high.base or chosen.calibration is not None


def test_chance_alone_explains_the_error_of_a_true_model() -> None:
    """Where fates are drawn from the very probabilities, the error is on average what chance gives."""
    rng = np.random.default_rng(0)
    told, blocks = rng.uniform(0.05, 0.95, 2000), rng.integers(1, 50, 2000).astype(np.float64)
    fates = [np.where(rng.random(2000) < told, blocks, 0.0) for _ in range(40)]
    true = [reliability_of(told, came, blocks, n_bins=10) for came in fates]
    assert np.mean([curve.ece for curve in true]) == pytest.approx(true[0].chance_ece, rel=0.15)
    wrong = reliability_of(np.clip(told + 0.2, 0.0, 1.0), fates[0], blocks, n_bins=10)
    assert wrong.ece > 3 * wrong.chance_ece


def test_rows_count_by_their_blocks() -> None:
    """A row of many blocks that is told wrongly weighs as much as so many rows of one."""
    told = reliability_of(np.array([0.5, 0.5]), np.array([99.0, 0.0]), np.array([99.0, 1.0]), n_bins=1)
    assert told.ece == pytest.approx(0.49)


def test_young_rows_do_not_count(model: ReuseModel) -> None:
    """Rows that are not yet as old as the horizon have no fate, and without others there is no answer."""
    young = after(ROWS, SPAN_S - 0.5 * model.far.horizon_s, SPAN_S)
    assert isinstance(reliability(model.far, young, SPAN_S), NotEnough)


def test_a_bent_model_is_straightened(model: ReuseModel) -> None:
    """A model that doubles all log odds gets a correction, and is truer with it on rows later still."""
    bent = replace(
        model.far,
        base=2 * model.far.base + whole(1.0),
        tables=tuple(replace(table, scores=2 * table.scores) for table in model.far.tables),
    )
    newest, later = after(ROWS, HALF_S, 0.75 * SPAN_S), after(ROWS, 0.75 * SPAN_S, SPAN_S)
    corrected = calibrated(bent, newest, later, SPAN_S)
    assert corrected.calibration is not None or corrected.base != bent.base
    before, now = reliability(bent, later, SPAN_S), reliability(corrected, later, SPAN_S)
    assert isinstance(before, Reliability)
    assert isinstance(now, Reliability)
    assert now.ece < 0.5 * before.ece


def test_a_true_model_stays_as_it_is(model: ReuseModel) -> None:
    """Where a correction does not help on later rows there is none; nor where there is nothing to learn it on."""
    newest, later = after(ROWS, HALF_S, 0.75 * SPAN_S), after(ROWS, 0.75 * SPAN_S, SPAN_S)
    assert calibrated(model.far, newest, later, SPAN_S) == model.far
    nothing = ROWS.take(np.arange(0))
    assert calibrated(model.far, nothing, later, SPAN_S) is model.far
    assert calibrated(model.far, newest, nothing, SPAN_S) is model.far


def test_correction_is_a_table_that_never_falls(model: ReuseModel) -> None:
    """Scores ascend, probabilities do not fall and lie in [0, 1], and the order of rows is kept."""
    table = isotonic(model.near, after(ROWS, HALF_S, 0.75 * SPAN_S))
    assert list(table.scores) == sorted(set(table.scores))
    assert list(table.probabilities) == sorted(table.probabilities)
    assert 0.0 <= table.probabilities[0] <= table.probabilities[-1] <= 1.0
    assert 2 <= len(table.scores) <= 48
    corrected: HorizonModel = replace(model.near, calibration=table)
    scores = np.sort(score_rows(corrected, ROWS.features))
    assert (np.diff(probability(corrected, scores)) >= 0.0).all()
