"""Slope and offset of the scores: what they mend, what they leave alone, and that they move no row past another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learned_rows import QUICK, SPAN_S, make_rows

from autotune.core.reuse import ReuseModel, classify, probability, score_rows
from autotune.costs.reuse import NotEnough, fit_reuse
from autotune.costs.reuse import horizon as trees_of_a_horizon
from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.calibration import reliability
from autotune.costs.reuse.horizon import Labelled, as_tables, fit_trees
from autotune.costs.reuse.truing import AS_FITTED, Fates, Line, true_line

ROWS = make_rows(12_000)


def drawn_fates(log_odds: np.ndarray, seed: int = 0, blocks: float = 1.0) -> Fates:
    """Rows of equal size that come back whole, with the chance that the log odds give."""
    comes = np.random.default_rng(seed).random(len(log_odds)) < 1.0 / (1.0 + np.exp(-log_odds))
    return Fates(np.full(len(log_odds), blocks), np.where(comes, blocks, 0.0))


def test_bent_scores_are_straightened() -> None:
    """Scores that tell half of what is true, around the wrong level, get the slope and offset that undo it."""
    true = np.random.default_rng(1).normal(-1.0, 1.5, 20_000)
    line = true_line(0.5 * true + 0.7, drawn_fates(true))
    assert line.slope == pytest.approx(2.0, rel=0.1)
    assert line.offset == pytest.approx(-1.4, abs=0.15)


def test_true_scores_stay() -> None:
    """Where the scores tell the truth there is next to nothing to mend."""
    true = np.random.default_rng(1).normal(0.0, 1.5, 20_000)
    line = true_line(true, drawn_fates(true))
    assert line.slope == pytest.approx(1.0, abs=0.1)
    assert line.offset == pytest.approx(0.0, abs=0.1)


def test_little_evidence_moves_little() -> None:
    """Ten rows move the level by much less than ten thousand do, however many blocks each of them has."""
    scores = np.zeros(10_000)
    many = true_line(scores, drawn_fates(scores + 2.0))
    few = true_line(scores[:10], drawn_fates(scores[:10] + 2.0, blocks=1000.0))
    assert many.offset == pytest.approx(2.0, abs=0.2)
    assert 0.0 < few.offset < 0.3
    assert many.slope == few.slope == 1.0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_fate_for_all_gives_finite_numbers(share: float) -> None:
    """Scores that separate the fates, or rows that all came back, bound slope and offset all the same."""
    scores = np.linspace(-30.0, 30.0, 3000)
    line = true_line(scores, Fates(np.ones(3000), np.where(scores > 0.0, 1.0, share)))
    assert np.isfinite([line.slope, line.offset]).all()
    assert 0.2 <= line.slope <= 5.0


def test_leaves_bear_the_slope_and_equal_scores_stay_equal() -> None:
    """The tables give slope times scikit-learn's log odds plus the offset, and rows that were equal still are."""
    bins = Bins.of(ROWS.features, 64)
    binned = bins.of_rows(ROWS.features)
    labelled = Labelled.of(binned, ROWS.n_blocks, ROWS.reused_within(300.0))
    estimator = fit_trees(labelled, QUICK, seed=1)
    plain, bent = (as_tables(estimator, labelled, bins, 300.0, line) for line in (AS_FITTED, Line(1.7, -0.3)))
    log_odds = 1.7 * estimator.decision_function(binned.T) - 0.3
    told = probability(bent, score_rows(bent, ROWS.features))
    assert np.abs(told - 1.0 / (1.0 + np.exp(-log_odds))).max() <= 1e-9
    before, after = score_rows(plain, ROWS.features), score_rows(bent, ROWS.features)
    assert len(np.unique(after)) == len(np.unique(before)) < len(before)
    assert (np.diff(after[np.argsort(before)]) >= 0).all()


def test_no_row_changes_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit whose scores are bent puts every row into the class in which it would be without that."""
    monkeypatch.setattr(Fates, "newest", lambda fates: np.arange(len(fates.blocks)))
    with_all = fit_reuse(ROWS, SPAN_S, QUICK, 0)
    monkeypatch.setattr(Fates, "newest", lambda fates: np.arange(len(fates.blocks) - 10, len(fates.blocks)))
    with_few = fit_reuse(ROWS, SPAN_S, QUICK, 0)
    assert isinstance(with_all, ReuseModel)
    assert isinstance(with_few, ReuseModel)
    assert with_all.near.base != with_few.near.base
    assert (classify(with_all, ROWS.features) == classify(with_few, ROWS.features)).all()
    assert (with_all.hazard_per_s == with_few.hazard_per_s).all()


def test_a_strong_pull_no_longer_hides_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees whose leaves are pulled hard towards no difference are much truer on unseen time with it than without."""
    half_s, hard = SPAN_S / 2, replace(QUICK, l2=1000.0)
    known, later = ROWS.as_known_at(half_s), ROWS.take(np.flatnonzero(ROWS.time_s > half_s))
    mended = fit_reuse(known, half_s, hard, 0)
    monkeypatch.setattr(trees_of_a_horizon, "true_line", lambda scores, fates: AS_FITTED)
    pulled = fit_reuse(known, half_s, hard, 0)
    assert isinstance(mended, ReuseModel)
    assert isinstance(pulled, ReuseModel)
    before, after = (reliability(model.far, later, SPAN_S) for model in (pulled, mended))
    assert not isinstance(before, NotEnough)
    assert not isinstance(after, NotEnough)
    assert after.ece < 0.7 * before.ece
