"""Score and class of a block from the packed tables of a reuse model.

The tables are those of :class:`autotune.core.reuse.PackedModel`. Scores are whole numbers, so their sum is the same in
any order and in any language; nothing here rounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide.reuse_layout import COLUMN_MAP, FIRST, N_QUARTILES, ROW_MAP, SECOND


def count_below(cuts: npt.NDArray[np.float64], start: int, end: int, value: float) -> int:
    """How many of the ascending ``cuts[start:end]`` are smaller than ``value``; a value equal to a cut stays below."""
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low - start


def fill_bins(
    row: npt.NDArray[np.float64],
    cuts: npt.NDArray[np.float64],
    cuts_at: npt.NDArray[np.int32],
    bins: npt.NDArray[np.int32],
) -> None:
    """The bin of every feature of one row, over the cuts of all tables together.

    Args:
        row: ``(n_features,)`` values; -1 = unknown.
        cuts: Ascending cuts of feature 0, then those of feature 1, and so on.
        cuts_at: ``(n_features + 1,)`` where each feature's cuts begin.
        bins: ``(n_features,)`` where the answer goes.
    """
    for feature in range(bins.shape[0]):
        bins[feature] = count_below(cuts, cuts_at[feature], cuts_at[feature + 1], row[feature])


def score(
    bins: npt.NDArray[np.int32],
    first_table: int,
    last_table: int,
    base: int,
    tables: npt.NDArray[np.int32],
    maps: npt.NDArray[np.int32],
    scores: npt.NDArray[np.int64],
) -> int:
    """Score of a row: the base plus one entry of each table in ``[first_table, last_table)``, in units of 2**-40.

    Args:
        bins: What :func:`fill_bins` gave.
        first_table: First table of the model.
        last_table: One behind its last table.
        base: Score of the model before any table.
        tables: ``(n_tables, 4)``: both features, and where in ``maps`` their maps begin.
        maps: From a feature's bin to the offset of the row, or of the column, of a table in ``scores``.
        scores: Entries of all tables.
    """
    total = base
    for t in range(first_table, last_table):
        row = maps[tables[t, ROW_MAP] + bins[tables[t, FIRST]]]
        total += scores[row + maps[tables[t, COLUMN_MAP] + bins[tables[t, SECOND]]]]
    return total


def class_of(near: int, far: int, near_cuts: npt.NDArray[np.int64], far_cuts: npt.NDArray[np.int64]) -> int:
    """Class 0 to 15 of a block: quartile of the near score, then quartile of the far score within it.

    Args:
        near: Score of the near horizon.
        far: Score of the far horizon.
        near_cuts: ``(3,)`` ascending.
        far_cuts: ``(4, 3)``: one ascending row per quartile of the near score.
    """
    first = 0
    for cut in range(near_cuts.shape[0]):
        if near_cuts[cut] < near:
            first += 1
    second = 0
    for cut in range(far_cuts.shape[1]):
        if far_cuts[first, cut] < far:
            second += 1
    return N_QUARTILES * first + second
