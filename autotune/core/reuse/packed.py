"""The reuse model as flat arrays, for compiled loops and for the engine.

Each feature's cuts are merged over all tables, so that a row is binned once; each table then maps those bins to its own
rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import N_FEATURES
from autotune.core.decide.fixed import scale_ns
from autotune.core.decide.reuse_layout import COLUMN_MAP, FIRST, ROW_MAP, SECOND
from autotune.core.reuse.gain import gain_table
from autotune.core.reuse.model import NO_FEATURE, ReuseModel, ScoreTable
from autotune.core.units import seconds_to_ns


@dataclass(frozen=True, slots=True)
class PackedTables:
    """Tables of one or more models over common cuts; see :func:`autotune.core.decide.reuse.score`.

    Attributes:
        cuts: Ascending cuts of feature 0, then those of feature 1, and so on, float64.
        cuts_at: ``(n_features + 1,)`` int32: where each feature's cuts begin.
        tables: ``(n_tables, 4)`` int32: both features, where the row map and the column map begin in ``maps``.
        maps: int32, from a feature's bin to an offset in ``scores``; a row's and a column's offset add up.
        scores: int64, entries of all tables.
    """

    cuts: npt.NDArray[np.float64]
    cuts_at: npt.NDArray[np.int32]
    tables: npt.NDArray[np.int32]
    maps: npt.NDArray[np.int32]
    scores: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PackedModel:
    """What a loop needs to find the class and the gain of a block; see :mod:`autotune.core.decide.reuse`.

    Attributes:
        cuts: Ascending cuts of feature 0, then those of feature 1, and so on, float64.
        cuts_at: ``(n_features + 1,)`` int32: where each feature's cuts begin.
        tables: ``(n_tables, 4)`` int32: both features, where the row map and the column map begin in ``maps``.
        maps: int32, from a feature's bin to an offset in ``scores``; a row's and a column's offset add up.
        scores: int64, entries of all tables.
        n_near: Tables ``[0, n_near)`` belong to the near model, the others to the far one.
        near_base: Score of the near model before any table.
        far_base: Score of the far model before any table.
        near_cuts: ``(3,)`` int64.
        far_cuts: ``(4, 3)`` int64.
        edges_ns: ``(48,)`` int64 ages.
        gains: ``(16, 49)`` float64, what :func:`autotune.core.reuse.gain_table` gives.
        scale_ns: Nanoseconds by which one unit of logarithm puts a block off, for keys that do not change.
    """

    cuts: npt.NDArray[np.float64]
    cuts_at: npt.NDArray[np.int32]
    tables: npt.NDArray[np.int32]
    maps: npt.NDArray[np.int32]
    scores: npt.NDArray[np.int64]
    n_near: int
    near_base: int
    far_base: int
    near_cuts: npt.NDArray[np.int64]
    far_cuts: npt.NDArray[np.int64]
    edges_ns: npt.NDArray[np.int64]
    gains: npt.NDArray[np.float64]
    scale_ns: float


def pack(model: ReuseModel, device_age_s: float = 0.0, n_features: int = N_FEATURES) -> PackedModel:
    """Flat arrays of a model.

    Args:
        model: The model.
        device_age_s: D, as :func:`autotune.core.reuse.gain_table` takes it.
        n_features: Features in a row.
    """
    packed = pack_tables((*model.near.tables, *model.far.tables), n_features)
    return PackedModel(
        cuts=packed.cuts,
        cuts_at=packed.cuts_at,
        tables=packed.tables,
        maps=packed.maps,
        scores=packed.scores,
        n_near=len(model.near.tables),
        near_base=model.near.base,
        far_base=model.far.base,
        near_cuts=np.array(model.near_cuts, np.int64),
        far_cuts=np.array(model.far_cuts, np.int64),
        edges_ns=np.array([seconds_to_ns(edge) for edge in model.edges_s], np.int64),
        gains=gain_table(model, device_age_s),
        scale_ns=scale_ns(model.near.horizon_s),
    )


def pack_tables(
    tables: Sequence[ScoreTable], n_features: int, cuts: Sequence[npt.NDArray[np.float64]] | None = None
) -> PackedTables:
    """Tables over common cuts.

    Args:
        tables: In the order in which they are kept.
        n_features: Features in a row.
        cuts: Ascending cuts of each feature, all those of the tables among them; ``None`` = just those.
    """
    if cuts is None:
        cuts = [np.array(sorted(_cuts_of(tables, feature)), np.float64) for feature in range(n_features)]
    described = np.zeros((len(tables), 4), np.int32)
    maps: list[npt.NDArray[np.int32]] = []
    map_at = score_at = 0
    for position, table in enumerate(tables):
        n_columns = table.scores.shape[1]
        second = table.first if table.second == NO_FEATURE else table.second
        rows = score_at + n_columns * _local_bins(cuts[table.first], table.first_cuts)
        columns = _local_bins(cuts[second], table.second_cuts)
        described[position, [FIRST, SECOND, ROW_MAP, COLUMN_MAP]] = table.first, second, map_at, map_at + len(rows)
        maps += [rows, columns]
        map_at += len(rows) + len(columns)
        score_at += table.scores.size
    return PackedTables(
        cuts=np.concatenate([np.zeros(0), *cuts]),
        cuts_at=np.cumsum([0, *(len(some) for some in cuts)], dtype=np.int32),
        tables=described,
        maps=np.concatenate([np.zeros(0, np.int32), *maps]).astype(np.int32),
        scores=np.concatenate([np.zeros(0, np.int64), *(table.scores.ravel() for table in tables)]),
    )


def _cuts_of(tables: Sequence[ScoreTable], feature: int) -> set[float]:
    rows = {cut for table in tables if table.first == feature for cut in table.first_cuts}
    return rows | {cut for table in tables if table.second == feature for cut in table.second_cuts}


def _local_bins(common: npt.NDArray[np.float64], own: tuple[float, ...]) -> npt.NDArray[np.int32]:
    """From a bin over the common cuts to one over a table's own: how many of its cuts lie before that bin."""
    return np.concatenate([[0], np.searchsorted(np.array(own, np.float64), common, side="right")]).astype(np.int32)
