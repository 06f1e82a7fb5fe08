"""Hazard of reuse by age, per class, from reuses and from blocks that still wait."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES, N_EDGES
from autotune.costs.reuse.rows import Rows, counted

_FIRST_EDGE_S = 0.1
_DIGITS = 6


def age_edges_s(rows: Rows, now_s: float) -> tuple[float, ...]:
    """Ages, evenly spaced in their logarithm, from 0.1 s or the smallest gap to the longest age seen."""
    longest_s = max(now_s - float(rows.time_s.min()), 1e-3)
    smallest_s = float(rows.event_gap_s.min()) if len(rows.event_gap_s) else _FIRST_EDGE_S
    first_s = min(max(_FIRST_EDGE_S, smallest_s), longest_s / 100.0)
    return tuple(readable(edge) for edge in np.geomspace(first_s, longest_s, N_EDGES).tolist())


def class_hazards(
    rows: Rows, classes: npt.NDArray[np.int8], now_s: float, edges_s: tuple[float, ...], pseudo_events: float
) -> npt.NDArray[np.float64]:
    """Reuses per block and second ``(16, 49)``, constant within an age bin.

    A block counts in each age bin for the time that it spent there before its reuse, or before now. What a class has at
    one age is drawn to the hazard of all blocks at that age, times how much more often the class comes back over all
    ages; that factor is drawn to 1. Either pull weighs ``pseudo_events`` reuses of mean size, for blocks of a run come
    back together.

    Args:
        rows: The rows.
        classes: ``(n,)`` class of each.
        now_s: The present.
        edges_s: ``(48,)`` ages.
        pseudo_events: Weight of the pooled hazard.

    Source: the estimate of a piecewise-exponential hazard with censoring, events over exposure (Friedman, "Piecewise
    Exponential Models for Survival Data with Covariates", Annals of Statistics 10, 1982), with a gamma prior around
    the hazard of all.
    """
    reused = counted(rows.event_row, rows.event_blocks, len(rows))
    waiting = np.maximum(rows.n_blocks - reused, 0.0)
    events, spent_s = _ended(classes[rows.event_row], rows.event_gap_s, rows.event_blocks, edges_s)
    exposure_s = spent_s + _ended(classes, np.maximum(now_s - rows.time_s, 0.0), waiting, edges_s)[1]
    mean_blocks = rows.event_blocks.mean() if len(rows.event_blocks) else 1.0
    weight = pseudo_events * float(mean_blocks)
    pooled = _pooled(events.sum(axis=0), exposure_s.sum(axis=0), weight)
    level = (events.sum(axis=1) + weight) / ((exposure_s * pooled).sum(axis=1) + weight)
    prior = level[:, np.newaxis] * pooled
    hazard = np.where(prior > 0.0, (events + weight) / (exposure_s + weight / np.where(prior > 0.0, prior, 1.0)), 0.0)
    return np.array([[readable(value) for value in row] for row in hazard.tolist()])


def readable(value: float) -> float:
    """A number of six figures, so that a file of them can be read."""
    return float(f"{value:.{_DIGITS}g}")


def _ended(
    classes: npt.NDArray[np.int8],
    age_s: npt.NDArray[np.float64],
    blocks: npt.NDArray[np.float64] | npt.NDArray[np.int32],
    edges_s: tuple[float, ...],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Blocks whose wait ended at some ages: how many per class and age bin, and the block-seconds spent in each."""
    starts_s = np.array((0.0, *edges_s))
    bins = np.searchsorted(starts_s[1:], age_s, side="right")
    cell = classes.astype(np.int64) * N_AGE_BINS + bins
    size = N_CLASSES * N_AGE_BINS
    ended = counted(cell, blocks, size).reshape(N_CLASSES, N_AGE_BINS)
    in_last_s = counted(cell, blocks * (age_s - starts_s[bins]), size)
    passed = ended[:, ::-1].cumsum(axis=1)[:, ::-1] - ended
    widths_s = np.append(np.diff(starts_s), 0.0)
    return ended, passed * widths_s + in_last_s.reshape(N_CLASSES, N_AGE_BINS)


def _pooled(
    events: npt.NDArray[np.float64], exposure_s: npt.NDArray[np.float64], enough: float
) -> npt.NDArray[np.float64]:
    """Hazard of all classes together ``(49,)``; where few reuses fall, over as many neighbouring bins as it takes."""
    pooled = np.zeros(N_AGE_BINS)
    for k in range(N_AGE_BINS):
        for width in range(N_AGE_BINS):
            near = slice(max(0, k - width), k + width + 1)
            if events[near].sum() >= enough and exposure_s[near].sum() > 0.0:
                break
        within_s = exposure_s[near].sum()
        pooled[k] = events[near].sum() / within_s if within_s > 0.0 else 0.0
    return pooled
