"""Bins of the features: cuts at quantiles of the rows, in figures that a person can read.

scikit-learn would place its own cuts, for each horizon anew, and takes longer for it than for all trees when rows have
weights. So rows are binned once, for both horizons, and the trees are fitted on the bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import UNKNOWN
from autotune.core.reuse import HorizonModel
from autotune.core.reuse.packed import pack_tables
from autotune.core.reuse.scoring import score_bins

_MAX_ROWS = 4_000  # enough for 64 quantiles
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Bins:
    """Cuts of the features that vary.

    Attributes:
        columns: Indices of those features.
        cuts: Ascending cuts of each.
    """

    columns: tuple[int, ...]
    cuts: tuple[npt.NDArray[np.float64], ...]

    @classmethod
    def of(cls, features: npt.NDArray[np.float64], max_bins: int) -> Bins:
        """Cuts from rows ``(n, n_features)``; equally spaced rows are enough of them.

        Args:
            features: The rows.
            max_bins: At most so many bins per feature.
        """
        some = features[:: 1 + len(features) // _MAX_ROWS]
        found = {column: _cuts(some[:, column], max_bins) for column in range(features.shape[1])}
        return cls(
            columns=tuple(column for column, cuts in found.items() if len(cuts)),
            cuts=tuple(cuts for cuts in found.values() if len(cuts)),
        )

    def of_rows(self, features: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
        """Bins ``(len(columns), n)`` of rows ``(n, n_features)``."""
        bins = np.empty((len(self.columns), len(features)), np.uint8)
        for position, (column, cuts) in enumerate(zip(self.columns, self.cuts, strict=True)):
            bins[position] = np.searchsorted(cuts, features[:, column], side="left")
        return bins

    def scores(self, model: HorizonModel, binned: npt.NDArray[np.uint8], n_features: int) -> npt.NDArray[np.int64]:
        """Scores ``(n,)`` of rows by their bins, equal to those that the rows themselves have.

        Args:
            model: Fitted on these bins.
            binned: What :meth:`of_rows` gave.
            n_features: Features in a row.
        """
        cuts = [np.zeros(0)] * n_features
        for column, own in zip(self.columns, self.cuts, strict=True):
            cuts[column] = own
        by_feature = {column: binned[position].astype(np.intp) for position, column in enumerate(self.columns)}
        return score_bins(pack_tables(model.tables, n_features, cuts), model.base, binned.shape[1], by_feature)


def known_features(features: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which features ``(n_features,)`` any row knows."""
    known: npt.NDArray[np.bool_] = (features != UNKNOWN).any(axis=0)
    return known


def _cuts(values: npt.NDArray[np.float64], max_bins: int) -> npt.NDArray[np.float64]:
    ordered = np.sort(values)
    starts = np.flatnonzero(np.diff(ordered) > 0.0) + 1
    if len(starts) == 0:
        return np.zeros(0)
    if len(starts) < max_bins:
        between = (0.5 * ordered[starts - 1] + 0.5 * ordered[starts]).tolist()
    else:
        places = np.ceil(np.arange(1, max_bins) / max_bins * len(ordered)).astype(np.intp) - 1
        between = ordered[places].tolist()
    rounded = np.array(sorted({float(f"{cut:.{_DIGITS}g}") for cut in between}))
    inside: npt.NDArray[np.float64] = rounded[(rounded >= ordered[0]) & (rounded < ordered[-1])]
    return inside
