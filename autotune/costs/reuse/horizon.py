"""The model of one horizon: boosted trees on the rows whose fate is known, then tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.core.reuse import NO_FEATURE, HorizonModel, ScoreTable
from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.purify import purify
from autotune.costs.reuse.rows import ReuseSettings, counted
from autotune.costs.reuse.trees import base_score, constant_of, leaves, tables_from, whole

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier


_MAX_WEIGHT_ROWS = 10_000  # enough for averages over the entries of a table


@dataclass(frozen=True, slots=True)
class Labelled:
    """Weighted rows with a label: a row of which some blocks came back stands twice, once with each label.

    Attributes:
        bins: ``(n_columns, n)`` bins of the features.
        reused: ``(n,)`` whether the blocks came back within the horizon.
        blocks: ``(n,)`` how many.
    """

    bins: npt.NDArray[np.uint8]
    reused: npt.NDArray[np.bool_]
    blocks: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls, bins: npt.NDArray[np.uint8], n_blocks: npt.NDArray[np.int32], came_back: npt.NDArray[np.float64]
    ) -> Labelled:
        """Rows ``(n,)`` of ``n_blocks``, of which ``came_back`` did."""
        left = np.maximum(n_blocks - came_back, 0.0)
        yes, no = np.flatnonzero(came_back > 0.0), np.flatnonzero(left > 0.0)
        return cls(
            bins=bins[:, np.concatenate([yes, no])],
            reused=np.concatenate([np.ones(len(yes), np.bool_), np.zeros(len(no), np.bool_)]),
            blocks=np.concatenate([came_back[yes], left[no]]),
        )


def fit_horizon(rows: Labelled, bins: Bins, horizon_s: float, settings: ReuseSettings, seed: int) -> HorizonModel:
    """The model of one horizon; where all blocks shared one fate, or no feature varies, it has no tables.

    Args:
        rows: At least one, in no order that matters.
        bins: What the rows' bins mean.
        horizon_s: The horizon.
        settings: How to fit.
        seed: Of scikit-learn's own choices.
    """
    if rows.reused.all() or not rows.reused.any() or not bins.columns:
        return HorizonModel(horizon_s, _log_odds(rows), ())
    return as_tables(fit_trees(rows, settings, seed), rows, bins, horizon_s)


def fit_trees(rows: Labelled, settings: ReuseSettings, seed: int) -> HistGradientBoostingClassifier:
    """The fitted trees; on one thread, for several contend with whatever else runs, and add in another order."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    estimator = HistGradientBoostingClassifier(
        max_depth=settings.max_depth,
        max_iter=settings.trees,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.min_samples_leaf,
        l2_regularization=settings.l2,
        max_bins=settings.max_bins,
        early_stopping=False,
        random_state=seed,
    )
    with threadpool_limits(limits=1):
        return estimator.fit(
            rows.bins.T.astype(np.float64), rows.reused, sample_weight=rows.blocks / rows.blocks.mean()
        )


def as_tables(estimator: HistGradientBoostingClassifier, rows: Labelled, bins: Bins, horizon_s: float) -> HorizonModel:
    """The trees as tables over the features' own cuts."""

    def cut_of(column: int, threshold: float) -> tuple[int, float]:
        return bins.columns[column], float(bins.cuts[column][int(threshold)])

    some = slice(None, None, 1 + len(rows.blocks) // _MAX_WEIGHT_ROWS)
    binned, blocks = rows.bins[:, some].astype(np.intp), rows.blocks[some]

    def weights(table: ScoreTable) -> npt.NDArray[np.float64]:
        place = np.zeros(len(blocks), np.int64)
        for feature, cuts in ((table.first, table.first_cuts), (table.second, table.second_cuts)):
            if feature == NO_FEATURE:
                continue
            column = bins.columns.index(feature)
            own = np.searchsorted(np.array(cuts), bins.cuts[column], side="right")
            place = place * (len(cuts) + 1) + np.concatenate([[0], own])[binned[column]]
        return counted(place, blocks, table.scores.size).reshape(table.scores.shape)

    found = list(leaves(estimator, cut_of))
    base, tables = purify(base_score(estimator) + constant_of(found), tables_from(found), weights)
    return HorizonModel(horizon_s, base, tables)


def _log_odds(rows: Labelled) -> int:
    """Log odds of one share for all, half a block away from never and always."""
    came_back = float(rows.blocks[rows.reused].sum())
    return whole(float(np.log((came_back + 0.5) / (rows.blocks.sum() - came_back + 0.5))))
