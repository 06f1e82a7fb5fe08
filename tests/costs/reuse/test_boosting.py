"""Trees on bins: the very trees that scikit-learn finds when it bins for itself, on one thread."""

from __future__ import annotations

import numpy as np
import pytest
from learned_rows import QUICK, make_rows
from sklearn.ensemble import HistGradientBoostingClassifier

from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.boosting import boosted
from autotune.costs.reuse.trees import leaves

ROWS = make_rows(3000)
REUSED = ROWS.reused_within(300.0) > 0.0


@pytest.mark.parametrize("gap", [1, 3], ids=["every bin occurs", "bins that do not occur"])
def test_trees_are_those_of_scikit_learn(gap: int) -> None:
    """The same leaves behind the same thresholds, and the same probabilities between and beyond the bins."""
    bins = (Bins.of(ROWS.features, 64).of_rows(ROWS.features) // gap * gap).astype(np.uint8)
    weights = ROWS.n_blocks / ROWS.n_blocks.mean()
    ours = boosted(bins, REUSED, weights, QUICK, seed=5)
    theirs = HistGradientBoostingClassifier(
        max_depth=QUICK.max_depth,
        max_iter=QUICK.trees,
        learning_rate=QUICK.learning_rate,
        min_samples_leaf=QUICK.min_samples_leaf,
        l2_regularization=QUICK.l2,
        max_bins=QUICK.max_bins,
        early_stopping=False,
        random_state=5,
    ).fit(bins.T.astype(np.float64), REUSED, sample_weight=weights)
    found, expected = (list(leaves(one, lambda column, threshold: (column, threshold))) for one in (ours, theirs))
    assert found == expected
    other = np.random.default_rng(0).integers(0, 70, (500, len(bins))).astype(np.float64)
    assert (ours.predict_proba(other) == theirs.predict_proba(other)).all()


def test_what_was_given_is_not_changed() -> None:
    """The bins of the caller are the same after the fit, for both horizons are fitted on them."""
    bins = Bins.of(ROWS.features, 64).of_rows(ROWS.features) // 2 * 2
    before = bins.copy()
    boosted(bins, REUSED, np.ones(len(ROWS)), QUICK, seed=0)
    assert (bins == before).all()
