"""Bounds on what was measured: counts, quantiles of histograms, and rates that vary from interval to interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from autotune.core.signals import HistogramReading

_BLOCK_INTERVALS = 6  # drawn together: load of neighbouring intervals is alike
_MIN_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Bounds:
    """An estimate with its bounds."""

    value: float
    low: float
    high: float

    def overlaps(self, low: float, high: float) -> bool:
        """Whether it can agree with another pair of bounds."""
        return self.low <= high and low <= self.high


def value_at_rank(histogram: HistogramReading, rank: float) -> float:
    """Where the observation of that rank lies, in proportion within its bucket; the last finite bound at most."""
    below, left = 0.0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if math.isinf(bound):
            break
        if count > 0.0 and below + count >= rank:
            return left + (bound - left) * max(0.0, rank - below) / count
        below, left = below + count, bound
    return left


def two_sided_z(confidence: float) -> float:
    """Standard deviations within which a normal variable lies with this probability."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def quantile_bounds(histogram: HistogramReading, quantile: float, z: float) -> Bounds | None:
    """A quantile with distribution-free bounds; ``None`` where there are too few observations for them.

    The number of observations below the quantile is binomial, so the bounds are the observations of rank
    ``n q ± z sqrt(n q (1 - q))``. Where a rank falls inside a bucket, the value is taken in proportion; two windows
    with the same buckets are displaced alike, so their comparison is not. Beyond the last finite bound a page says
    nothing.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2.
    """
    n = sum(histogram.counts)
    spread = z * math.sqrt(n * quantile * (1.0 - quantile))
    low, high = n * quantile - spread, n * quantile + spread
    if low <= 0.0 or high > n:
        return None
    return Bounds(*(value_at_rank(histogram, rank) for rank in (n * quantile, low, high)))


def poisson_bounds(events: float, z: float) -> Bounds:
    """Bounds on the mean of a Poisson variable of which ``events`` were seen.

    Source: Byar's approximation, in Breslow and Day, Statistical Methods in Cancer Research II (1987), p. 69.
    """
    low = 0.0
    if events > 0.0:
        low = events * (1.0 - 1.0 / (9.0 * events) - z / (3.0 * math.sqrt(events))) ** 3
    more = events + 1.0
    high = more * (1.0 - 1.0 / (9.0 * more) + z / (3.0 * math.sqrt(more))) ** 3
    return Bounds(events, max(0.0, low), high)


def rate_bounds(parts: Sequence[float], wholes: Sequence[float], confidence: float) -> Bounds | None:
    """Sum of the parts over sum of the wholes, with bounds from how much it varies from block to block.

    Six neighbouring intervals are one block, since their load is alike. The variance is that of the ratio estimator
    over blocks, and the bounds are those of Student's distribution.

    Args:
        parts: One value per interval.
        wholes: What each refers to, such as seconds or tokens.
        confidence: Probability that the bounds cover the rate.

    Returns:
        ``None`` where fewer than four blocks, or nothing to refer to, are there.

    Source: Cochran, Sampling Techniques, 3rd ed., section 6.3; Abramowitz and Stegun, 26.7.5 for the quantile.
    """
    block = max(1, min(_BLOCK_INTERVALS, len(parts) // 8))
    n = len(parts) // block
    if n < _MIN_BLOCKS:
        return None
    edges = np.arange(n) * block
    part, whole = np.add.reduceat(np.asarray(parts, float), edges), np.add.reduceat(np.asarray(wholes, float), edges)
    if whole.sum() <= 0.0:
        return None
    rate = float(part.sum() / whole.sum())
    squares = float(((part - rate * whole) ** 2).sum())
    error = math.sqrt(squares / (n * (n - 1))) / float(whole.mean())
    reach = _student(two_sided_z(confidence), n - 1) * error
    return Bounds(rate, rate - reach, rate + reach)


def _student(z: float, freedom: int) -> float:
    """Quantile of Student's distribution from that of the normal one."""
    first = (z**3 + z) / (4.0 * freedom)
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * freedom**2)
    return z + first + second
