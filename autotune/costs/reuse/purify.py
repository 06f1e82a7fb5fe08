"""Tables that mean what they seem to: a pair holds only what its two features do not say each by itself.

Whatever a pair's rows and columns have on average is moved to the main effects, and the averages of those to the base,
in whole units, so no score changes. The base is then the score of the average block, and an entry says how far it moves
a block from there. Averages are over the blocks of the rows.

Source: Lengerich et al., "Purifying Interaction Effects with the Functional ANOVA", AISTATS 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from autotune.core.reuse import NO_FEATURE, ScoreTable
from autotune.costs.reuse.trees import Pair, spread

_UNSEEN = 1e-3  # weight of a cell without blocks, of the mean cell's

Weights = Callable[[ScoreTable], npt.NDArray[np.float64]]


def purify(base: int, tables: dict[Pair, ScoreTable], weights: Weights) -> tuple[int, tuple[ScoreTable, ...]]:
    """The same scores, as a base, main effects and pure pairs.

    Args:
        base: Score before any table.
        tables: By pair of features.
        weights: Blocks ``scores.shape`` per entry of a table.
    """
    mains = _empty_mains(tables)
    pairs: list[ScoreTable] = []
    for (first, second), table in tables.items():
        if second == NO_FEATURE:
            mains[first].scores[:, 0] += spread(table, mains[first].first_cuts)
            continue
        pure, rows, columns = _split(table, weights(table))
        for feature, cuts, part in ((first, table.first_cuts, rows), (second, table.second_cuts, columns)):
            moved = ScoreTable(feature, NO_FEATURE, cuts, (), part[:, np.newaxis])
            mains[feature].scores[:, 0] += spread(moved, mains[feature].first_cuts)
        pairs.append(pure)
    for table in mains.values():
        mean = _means(table.scores, weights(table), axis=0)
        table.scores[:] -= mean
        base += int(mean[0])
    slim = [_merged(table) for table in (*mains.values(), *pairs)]
    return base, tuple(table for table in slim if table.scores.any())


def _empty_mains(tables: dict[Pair, ScoreTable]) -> dict[int, ScoreTable]:
    """One main effect per feature, over all cuts that any table has of it."""
    cuts: dict[int, set[float]] = {}
    for table in tables.values():
        cuts.setdefault(table.first, set()).update(table.first_cuts)
        if table.second != NO_FEATURE:
            cuts.setdefault(table.second, set()).update(table.second_cuts)
    return {
        feature: ScoreTable(feature, NO_FEATURE, tuple(sorted(some)), (), np.zeros((len(some) + 1, 1), np.int64))
        for feature, some in sorted(cuts.items())
    }


def _split(
    table: ScoreTable, weights: npt.NDArray[np.float64]
) -> tuple[ScoreTable, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A pure pair, what its rows had on average, and what its columns had."""
    shares = _padded(weights)
    by_row = shares / shares.sum(axis=1, keepdims=True)
    apart = table.scores - (by_row * table.scores).sum(axis=1, keepdims=True)
    columns = np.zeros(table.scores.shape[1], np.int64)
    # What is left when the rows have their due, for all columns but the first, which may be 0.
    unsolved = np.diag(shares.sum(axis=0)) - shares.T @ by_row
    columns[1:] = np.rint(np.linalg.solve(unsolved[1:, 1:], (shares * apart).sum(axis=0)[1:]))
    rows = _means(table.scores - columns, weights, axis=1)
    return replace(table, scores=table.scores - columns - rows[:, np.newaxis]), rows, columns


def _means(scores: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.int64]:
    shares = _padded(weights)
    means: npt.NDArray[np.int64] = np.rint((scores * shares).sum(axis=axis) / shares.sum(axis=axis)).astype(np.int64)
    return means


def _padded(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return weights + _UNSEEN * max(float(weights.mean()), 1e-9)


def _merged(table: ScoreTable) -> ScoreTable:
    """Without the cuts on whose both sides the scores are equal."""
    rows = np.flatnonzero((np.diff(table.scores, axis=0) != 0).any(axis=1))
    columns = np.flatnonzero((np.diff(table.scores, axis=1) != 0).any(axis=0))
    return replace(
        table,
        first_cuts=tuple(table.first_cuts[k] for k in rows),
        second_cuts=tuple(table.second_cuts[k] for k in columns),
        scores=table.scores[np.ix_([0, *(rows + 1)], [0, *(columns + 1)])],
    )
