"""What one packed model makes of runs, fast enough for a scheduler: a few microseconds per run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from autotune.core.decide.features import USES
from autotune.core.decide.fixed import reuse_odds
from autotune.core.decide.reuse_layout import COLUMN_MAP, FIRST, N_QUARTILES, ROW_MAP, SECOND
from autotune.core.learned.runs import Run
from autotune.core.reuse.packed import PackedModel


class Classifier:
    """The same classes as :func:`autotune.core.decide.reuse.class_of`.

    Args:
        packed: The model.
    """

    def __init__(self, packed: PackedModel) -> None:
        self._cuts = [
            packed.cuts[start:end].tolist() for start, end in zip(packed.cuts_at[:-1], packed.cuts_at[1:], strict=True)
        ]
        tables = packed.tables
        self._first, self._second = tables[:, FIRST], tables[:, SECOND]
        self._rows, self._columns = tables[:, ROW_MAP], tables[:, COLUMN_MAP]
        self._maps, self._scores = packed.maps, packed.scores
        self._n_near = packed.n_near
        self._near_base, self._far_base = packed.near_base, packed.far_base
        self._near_cuts, self._far_cuts = packed.near_cuts.tolist(), packed.far_cuts.tolist()

    def scores(self, features: Sequence[float]) -> tuple[int, int]:
        """Near and far score of a row of features."""
        bins = np.array([bisect_left(cuts, value) for cuts, value in zip(self._cuts, features, strict=True)], np.int32)
        entries = self._scores[
            self._maps[self._rows + bins[self._first]] + self._maps[self._columns + bins[self._second]]
        ]
        near = self._near_base + int(entries[: self._n_near].sum())
        return near, self._far_base + int(entries[self._n_near :].sum())

    def classify(self, features: Sequence[float]) -> int:
        """Class of a row of features."""
        near, far = self.scores(features)
        first = bisect_left(self._near_cuts, near)
        return N_QUARTILES * first + bisect_left(self._far_cuts[first], far)

    @property
    def of_unknown(self) -> int:
        """What a block of which nothing is known counts as: the class that is used least."""
        return 0

    def group_of(self, run: Run) -> int:
        """Class of a run; each is classified once, and the class by an earlier model is kept beside it."""
        if run.model is self:
            return run.group
        if run.next_model is self:
            return run.next_group
        group = self.classify(run.features)
        if run.model is not None:
            if run.next_model is not None:
                run.model, run.group = run.next_model, run.next_group
            run.next_model, run.next_group = self, group
        else:
            run.model, run.group = self, group
        return group


class OddsOfReuse(Classifier):
    """Log odds of reuse instead of classes, as :func:`autotune.core.decide.fixed.reuse_odds` counts them."""

    def classify(self, features: Sequence[float]) -> int:
        """Log odds of a row of features, in units of 2**-40."""
        return reuse_odds(*self.scores(features), features[USES])

    @property
    def of_unknown(self) -> int:
        """The same, for one use: the highest that a block of the class that is used least has."""
        return int(self._near_cuts[0] + self._far_cuts[0][0])
