"""Trees as tables: the same probabilities as scikit-learn's, whatever the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learned_rows import QUICK, make_rows
from sklearn.ensemble import HistGradientBoostingClassifier

from autotune.core.decide.features import N_FEATURES
from autotune.core.reuse import NO_FEATURE, HorizonModel, ScoreTable, probability, score_rows
from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.horizon import Labelled, as_tables, fit_trees
from autotune.costs.reuse.purify import purify
from autotune.costs.reuse.trees import base_score, constant_of, leaves, tables_from, whole
from autotune.testing.reuse import reuse_models

ROWS = make_rows()
LABELS = ROWS.reused_within(300.0) > 0.0


@pytest.fixture(scope="module", params=[1, 2])
def raw(request: pytest.FixtureRequest) -> Any:
    """Trees of depth 1 or 2 that scikit-learn fitted on the features themselves."""
    estimator = HistGradientBoostingClassifier(max_depth=request.param, max_iter=40, max_bins=64, random_state=0)
    return estimator.fit(ROWS.features, LABELS, sample_weight=ROWS.n_blocks)


def decomposed(estimator: Any) -> HorizonModel:
    """The tables of trees on raw features."""
    found = list(leaves(estimator, lambda feature, threshold: (feature, threshold)))
    return HorizonModel(300.0, whole(base_score(estimator)) + constant_of(found), tuple(tables_from(found).values()))


def hard_rows(cuts: list[float], seed: int, n: int = 300) -> npt.NDArray[np.float64]:
    """Rows of ordinary values, values equal to cuts and right beside them, unknown and enormous ones."""
    rng = np.random.default_rng(seed)
    beside = [np.nextafter(cut, side) for cut in cuts for side in (-np.inf, np.inf)]
    values = np.array([-1.0, 0.0, 1e300, -1e300, 5e-324, *cuts, *beside])
    rows = rng.choice(values, (n, N_FEATURES))
    return np.where(rng.random(rows.shape) < 0.3, 10.0 ** rng.uniform(-3.0, 6.0, rows.shape), rows)


def all_cuts(model: HorizonModel) -> list[float]:
    """Every cut of a model."""
    return [cut for table in model.tables for cut in (*table.first_cuts, *table.second_cuts)]


def test_tables_give_the_probabilities_of_scikit_learn(raw: Any) -> None:
    """Within 1e-9 on the rows of the fit and on random rows, extreme values and values equal to cuts among them."""
    model = decomposed(raw)
    assert len(model.tables) > 1
    for rows in (ROWS.features, hard_rows(all_cuts(model), seed=1)):
        expected = raw.predict_proba(rows)[:, 1]
        assert np.abs(probability(model, score_rows(model, rows)) - expected).max() <= 1e-9


def test_binned_and_purified_tables_give_the_same_probabilities() -> None:
    """So do the tables that the fit makes, from trees on bins, with main effects taken out of the pairs."""
    bins = Bins.of(ROWS.features, 64)
    labelled = Labelled.of(bins.of_rows(ROWS.features), ROWS.n_blocks, ROWS.reused_within(300.0))
    estimator = fit_trees(labelled, QUICK, seed=3)
    model = as_tables(estimator, labelled, bins, 300.0)
    rows = np.concatenate([ROWS.features, hard_rows(all_cuts(model), seed=2)])
    binned = bins.of_rows(rows)
    expected = estimator.predict_proba(binned.T.astype(np.float64))[:, 1]
    assert np.abs(probability(model, score_rows(model, rows)) - expected).max() <= 1e-9
    assert (bins.scores(model, binned, N_FEATURES) == score_rows(model, rows)).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_purifying_changes_no_score(data: st.DataObject) -> None:
    """Main effects move out of the pairs and averages into the base, in whole units: every score stays."""
    given_model = data.draw(reuse_models()).near
    by_pair = {(min(t.first, t.second), max(t.first, t.second)): t for t in given_model.tables if t.second >= 0}
    kept = [_ordered(table) for table in by_pair.values()]
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    tables = {(table.first, table.second): table for table in kept}
    base, pure = purify(given_model.base, tables, lambda table: rng.integers(0, 9, table.scores.shape).astype(float))
    before = HorizonModel(60.0, given_model.base, tuple(kept))
    rows = hard_rows(all_cuts(before), seed=4, n=50)
    assert (score_rows(before, rows) == score_rows(HorizonModel(60.0, base, pure), rows)).all()


def _ordered(table: ScoreTable) -> ScoreTable:
    if table.first < table.second:
        return table
    return ScoreTable(table.second, table.first, table.second_cuts, table.first_cuts, table.scores.T.copy())


def test_a_sum_of_two_effects_has_no_pair_left() -> None:
    """A table that only adds what its rows and its columns say falls apart into two main effects around a base."""
    added = np.add.outer(np.array([0, 8, 16]), np.array([-4, 4])).astype(np.int64)
    table = ScoreTable(2, 5, (1.0, 2.0), (7.0,), added)
    base, pure = purify(100, {(2, 5): table}, lambda some: np.ones(some.scores.shape))
    assert base == 108
    assert [(t.first, t.second, t.scores[:, 0].tolist()) for t in pure] == [
        (2, NO_FEATURE, [-8, 0, 8]),
        (5, NO_FEATURE, [-4, 4]),
    ]


def test_bins_are_cut_in_readable_figures() -> None:
    """Few distinct values are parted in their middles, many at quantiles, all in six figures; one value has no cut."""
    features = np.full((1000, N_FEATURES), 7.0)
    features[:, 0] = np.resize([-1.0, 0.0, 512.0], 1000)
    features[:, 1] = np.linspace(0.0, 1.0, 1000) / 3.0
    bins = Bins.of(features, 8)
    assert bins.columns == (0, 1)
    assert bins.cuts[0].tolist() == [-0.5, 256.0]
    assert len(bins.cuts[1]) == 7
    assert all(cut == float(f"{cut:.6g}") for cut in bins.cuts[1])
    counts = np.bincount(bins.of_rows(features)[1])
    assert counts.min() >= 120
