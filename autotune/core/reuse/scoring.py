"""Scores, classes and probabilities of many rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.reuse_layout import COLUMN_MAP, FIRST, N_QUARTILES, ROW_MAP, SECOND
from autotune.core.reuse.model import NO_FEATURE, SCORE_UNIT, HorizonModel, ReuseModel, ScoreTable
from autotune.core.reuse.packed import PackedTables, pack_tables


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one table adds to the score of one row.

    Attributes:
        first: Index of its first feature.
        second: Index of its second feature; -1 = there is none.
        score: In units of 2**-40.
    """

    first: int
    second: int
    score: int


def score_rows(model: HorizonModel, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Scores ``(n,)`` of rows ``(n, n_features)``, in units of 2**-40."""
    packed = pack_tables(model.tables, rows.shape[1])
    starts = packed.cuts_at
    used = np.unique(packed.tables[:, [FIRST, SECOND]])
    bins = {f: np.searchsorted(packed.cuts[starts[f] : starts[f + 1]], rows[:, f], side="left") for f in used.tolist()}
    return score_bins(packed, model.base, len(rows), bins)


def score_bins(
    packed: PackedTables, base: int, n_rows: int, bins: Mapping[int, npt.NDArray[np.intp]]
) -> npt.NDArray[np.int64]:
    """Scores ``(n_rows,)`` from bins over the packed tables' cuts.

    Args:
        packed: The tables of one horizon.
        base: Score before any table.
        n_rows: How many rows there are.
        bins: ``(n_rows,)`` bins of each feature that a table uses.
    """
    total = np.full(n_rows, base, np.int64)
    for table in packed.tables.tolist():
        offset = packed.maps[table[ROW_MAP] :][bins[table[FIRST]]]
        n_bins = packed.cuts_at[table[SECOND] + 1] - packed.cuts_at[table[SECOND]] + 1
        columns = packed.maps[table[COLUMN_MAP] :][:n_bins]
        if columns.any():  # a main effect has one column
            offset += columns[bins[table[SECOND]]]
        total += packed.scores[offset]
    return total


def classify(model: ReuseModel, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """Classes ``(n,)`` of rows ``(n, n_features)``."""
    return classes_of(model.near_cuts, model.far_cuts, score_rows(model.near, rows), score_rows(model.far, rows))


def classes_of(
    near_cuts: tuple[int, int, int],
    far_cuts: tuple[tuple[int, int, int], ...],
    near: npt.NDArray[np.int64],
    far: npt.NDArray[np.int64],
) -> npt.NDArray[np.int8]:
    """Classes ``(n,)`` from both scores ``(n,)``."""
    first = np.searchsorted(np.array(near_cuts, np.int64), near, side="left")
    second = (np.array(far_cuts, np.int64)[first] < far[:, np.newaxis]).sum(axis=1)
    classes: npt.NDArray[np.int8] = (N_QUARTILES * first + second).astype(np.int8)
    return classes


def probability(model: HorizonModel, scores: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Probabilities ``(n,)`` of reuse within the horizon from scores ``(n,)``."""
    if model.calibration is not None:
        table = model.calibration
        return np.interp(scores.astype(np.float64), np.array(table.scores, np.float64), table.probabilities)
    # The logistic function by way of tanh, which neither overflows nor warns, whatever the score.
    chances: npt.NDArray[np.float64] = 0.5 + 0.5 * np.tanh(0.5 * SCORE_UNIT * scores)
    return chances


def contributions(model: HorizonModel, row: npt.NDArray[np.float64]) -> tuple[Contribution, ...]:
    """What each table adds to the score of one row ``(n_features,)``, largest first; with the base they sum to it."""
    parts = [Contribution(table.first, table.second, _entry(table, row)) for table in model.tables]
    return tuple(sorted(parts, key=lambda part: (-abs(part.score), part.first, part.second)))


def _entry(table: ScoreTable, row: npt.NDArray[np.float64]) -> int:
    column = 0 if table.second == NO_FEATURE else _bin(table.second_cuts, row[table.second])
    return int(table.scores[_bin(table.first_cuts, row[table.first]), column])


def _bin(cuts: tuple[float, ...], value: float) -> int:
    return sum(cut < value for cut in cuts)
