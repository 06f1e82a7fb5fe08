"""What the reuse model is fitted on, and with which settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import UNKNOWN

Blocks = npt.NDArray[np.int32] | npt.NDArray[np.float64]
"""Counts of blocks; not whole where a row stands for several."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Runs of blocks when they fell idle, oldest first, and when their blocks were first used again.

    Attributes:
        features: ``(n, n_features)`` float64, in the order of :data:`autotune.core.decide.features.FEATURES`.
        time_s: ``(n,)`` when the row's blocks became idle.
        n_blocks: ``(n,)`` blocks of the run that count; a row may have none. One that was drawn stands for others too,
            and counts for so many blocks more.
        event_row: ``(m,)`` index of the row that an event belongs to.
        event_gap_s: ``(m,)`` seconds from the row's time to the first reuse of some of its blocks.
        event_blocks: ``(m,)`` how many of its blocks; those without an event were not used again so far.
    """

    features: npt.NDArray[np.float64]
    time_s: npt.NDArray[np.float64]
    n_blocks: Blocks
    event_row: npt.NDArray[np.int32]
    event_gap_s: npt.NDArray[np.float64]
    event_blocks: Blocks

    def __len__(self) -> int:
        return len(self.time_s)

    def take(self, chosen: npt.NDArray[np.int64]) -> Rows:
        """Some of the rows, by ascending index, with their events."""
        place = np.full(len(self), -1, np.int32)
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        moved = place[self.event_row]
        kept = np.flatnonzero(moved >= 0)
        return Rows(
            features=self.features[chosen],
            time_s=self.time_s[chosen],
            n_blocks=self.n_blocks[chosen],
            event_row=moved[kept],
            event_gap_s=self.event_gap_s[kept],
            event_blocks=self.event_blocks[kept],
        )

    def without(self, features: npt.NDArray[np.int64]) -> Rows:
        """The same rows with some features unknown."""
        hidden = self.features.copy()
        hidden[:, features] = UNKNOWN
        return replace(self, features=hidden)

    def as_known_at(self, now_s: float) -> Rows:
        """The rows that existed at a moment, with the reuses that had happened by then."""
        seen = self.take(np.flatnonzero(self.time_s <= now_s))
        happened = seen.time_s[seen.event_row] + seen.event_gap_s <= now_s
        return replace(
            seen,
            event_row=seen.event_row[happened],
            event_gap_s=seen.event_gap_s[happened],
            event_blocks=seen.event_blocks[happened],
        )

    def older_than(self, horizon_s: float, now_s: float) -> Rows:
        """The rows with blocks whose fate within a horizon is known at a moment."""
        return self.take(np.flatnonzero((self.time_s + horizon_s <= now_s) & (self.n_blocks > 0)))

    def reused_within(self, horizon_s: float) -> npt.NDArray[np.float64]:
        """Blocks ``(n,)`` of each row that were used again within a horizon, never more than count."""
        soon = self.event_gap_s <= horizon_s
        return np.minimum(counted(self.event_row[soon], self.event_blocks[soon], len(self)), self.n_blocks)


@dataclass(frozen=True, slots=True)
class ReuseSettings:
    """How the reuse model is fitted.

    Attributes:
        trees: Trees per horizon.
        learning_rate: Share of each tree that counts.
        min_samples_leaf: Fewest rows in a leaf.
        l2: Pull of every leaf towards no difference, as so much evidence (rows of mean size times P (1 - P)) that there
            is none: the blocks of a run share their fate, so few long runs must not decide.
        max_bins: Bins per feature.
        max_depth: 2 = pairs of features, 1 = each feature by itself.
        near_quantile: Quantile of the reuse gaps that is the near horizon.
        far_quantile: Quantile of the reuse gaps that is the far horizon.
        max_horizon_frac: Longest horizon, as a share of the time that has passed.
        pseudo_events: Weight of the pooled hazard in that of a class, in reuses of mean size.
        max_rows: Rows that are used; of more, about as many are drawn, long runs oftener than short ones.
        max_tree_rows: Rows that the trees of one horizon are fitted on; of more, about as many are drawn. Classes and
            curves use all.
        min_rows: Fewest rows whose fate is known.
        min_events: Fewest reuses.
    """

    trees: int = 80
    learning_rate: float = 0.15
    min_samples_leaf: int = 100
    l2: float = 100.0
    max_bins: int = 64
    max_depth: int = 2
    near_quantile: float = 0.5
    far_quantile: float = 0.9
    max_horizon_frac: float = 0.4
    pseudo_events: float = 5.0
    max_rows: int = 100_000
    max_tree_rows: int = 20_000
    min_rows: int = 400
    min_events: int = 40


@dataclass(frozen=True, slots=True)
class NotEnough:
    """There is no model yet.

    Attributes:
        reason: What is missing, in words.
    """

    reason: str


def counted(place: npt.NDArray[np.integer], weights: Blocks, length: int) -> npt.NDArray[np.float64]:
    """Sum of the weights at each place ``(length,)``, in float64."""
    return np.bincount(place, weights=weights.astype(np.float64), minlength=length).astype(np.float64, copy=False)


def weighted_quantiles(
    values: npt.NDArray[Any], weights: npt.NDArray[np.float64], shares: tuple[float, ...]
) -> npt.NDArray[Any]:
    """Smallest of ``values`` ``(n,)``, n > 0, up to which at least each share of the weight lies."""
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    places = np.searchsorted(running, np.array(shares) * running[-1], side="left")
    found: npt.NDArray[Any] = values[order[np.minimum(places, len(order) - 1)]]
    return found
