"""The model of one horizon: boosted trees on the rows whose fate is known, then tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.core.reuse import NO_FEATURE, HorizonModel, ScoreTable
from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.boosting import boosted
from autotune.costs.reuse.purify import purify
from autotune.costs.reuse.rows import Blocks, ReuseSettings, counted
from autotune.costs.reuse.trees import base_score, constant_of, leaves, tables_from, whole
from autotune.costs.reuse.truing import AS_FITTED, Fates, Line, true_line

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier


_MAX_WEIGHT_ROWS = 4_000  # enough for averages over the entries of a table
_NOTHING = 1e-9  # share of a row's blocks that is left over by rounding alone


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
    def of(cls, bins: npt.NDArray[np.uint8], n_blocks: Blocks, came_back: npt.NDArray[np.float64]) -> Labelled:
        """Rows ``(n,)`` of ``n_blocks``, of which ``came_back`` did."""
        left = n_blocks - came_back
        yes, no = np.flatnonzero(came_back > 0.0), np.flatnonzero(left > _NOTHING * n_blocks)
        return cls(
            bins=bins[:, np.concatenate([yes, no])],
            reused=np.concatenate([np.ones(len(yes), np.bool_), np.zeros(len(no), np.bool_)]),
            blocks=np.concatenate([came_back[yes], left[no]]),
        )


@dataclass(frozen=True, slots=True)
class Newest:
    """Rows whose fate is known since lately.

    Attributes:
        bins: ``(n_columns, n)`` bins of the features.
        fates: Of the same rows.
    """

    bins: npt.NDArray[np.uint8]
    fates: Fates


def fit_horizon(
    rows: Labelled,
    newest: Newest,
    bins: Bins,
    horizon_s: float,
    settings: ReuseSettings,
    seed: int,
) -> HorizonModel:
    """The model of one horizon; where all blocks shared one fate, or no feature varies, it has no tables.

    Args:
        rows: At least one, in no order that matters.
        newest: Rows that say how true the trees are by now.
        bins: What the rows' bins mean.
        horizon_s: The horizon.
        settings: How to fit.
        seed: Of scikit-learn's own choices.
    """
    if rows.reused.all() or not rows.reused.any() or not bins.columns:
        return HorizonModel(horizon_s, _log_odds(rows), ())
    estimator = fit_trees(rows, settings, seed)
    line = true_line(estimator.decision_function(newest.bins.T), newest.fates)
    return as_tables(estimator, rows, bins, horizon_s, line)


def fit_trees(rows: Labelled, settings: ReuseSettings, seed: int) -> HistGradientBoostingClassifier:
    """The fitted trees."""
    return boosted(rows.bins, rows.reused, rows.blocks / rows.blocks.mean(), settings, seed)


def as_tables(
    estimator: HistGradientBoostingClassifier, rows: Labelled, bins: Bins, horizon_s: float, line: Line = AS_FITTED
) -> HorizonModel:
    """The trees as tables over the features' own cuts.

    Args:
        estimator: Fitted on the rows.
        rows: Says how many blocks each entry of a table stands for.
        bins: What the rows' bins mean.
        horizon_s: The horizon.
        line: What becomes of the estimator's log odds; every leaf bears its share, so that equal scores stay equal.
    """

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

    found = list(leaves(estimator, cut_of, line.slope))
    before = whole(line.of(base_score(estimator)))
    base, tables = purify(before + constant_of(found), tables_from(found), weights)
    return HorizonModel(horizon_s, base, tables)


def _log_odds(rows: Labelled) -> int:
    """Log odds of one share for all, half a block away from never and always."""
    came_back = float(rows.blocks[rows.reused].sum())
    return whole(float(np.log((came_back + 0.5) / (rows.blocks.sum() - came_back + 0.5))))
