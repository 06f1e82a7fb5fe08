"""Seconds of a load or a store: ``latency + bytes / bandwidth``, and longer where others share the link.

A copy of n bytes beside which, on average over its time, k - 1 others run takes
``latency + n / bandwidth * (1 + contention * (k - 1))``. A contention of 1 is a link that is divided fairly, 0 one
that has room for all. The formula is linear in latency, seconds per byte and their product with the contention, so the
regression is that of the prefill, with a table's link as prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.errors import ConfigError
from autotune.core.estimates import Estimate
from autotune.core.shapes import LinkSpec
from autotune.costs.model import TABLE_SPREAD_FRAC
from autotune.costs.recompute import MAX_SAMPLES, WINDOW_S, table_level
from autotune.costs.robust import Column, Prior, RobustFit, fit_robustly
from autotune.costs.window import SampleWindow

_SCALE_WEIGHT = 4.0
_LATENCY_S = 50e-6  # spread of a latency that the table gives as 0
_LEAST_FRAC = 1e-3
_MOST_CONTENTION = 64.0
_WIDEST = 5.0  # logarithm by which an end of the bandwidth's interval lies off at most


@dataclass(frozen=True, slots=True)
class TransferSamples:
    """Finished copies of one direction as columns; a row may be the sum over several.

    Attributes:
        copies: ``(n,)`` copies in the row.
        moved_bytes: ``(n,)`` their bytes.
        concurrent: ``(n,)`` copies that ran at the same time, themselves included, on average over their time.
        seconds: ``(n,)`` their seconds.
    """

    copies: Column
    moved_bytes: Column
    concurrent: Column
    seconds: Column

    @classmethod
    def of(
        cls, moved_bytes: npt.ArrayLike, seconds: npt.ArrayLike, concurrent: npt.ArrayLike | None = None
    ) -> TransferSamples:
        """From single copies, all ``(n,)``; alone on the link if not said otherwise.

        Raises:
            ConfigError: the columns differ in length, or bytes or seconds are not positive.
        """
        sizes, taken = (np.atleast_1d(np.asarray(column, np.float64)) for column in (moved_bytes, seconds))
        beside = np.ones_like(sizes) if concurrent is None else np.atleast_1d(np.asarray(concurrent, np.float64))
        if not sizes.shape == taken.shape == beside.shape:
            raise ConfigError("columns of copies have one length", got=(sizes.shape, taken.shape, beside.shape))
        table = np.stack([sizes, taken, beside])
        if not (np.isfinite(table) & (table > 0.0)).all():
            raise ConfigError("bytes and seconds of copies are positive numbers", got="others among them")
        return cls(np.ones_like(sizes), sizes, beside, taken)


@dataclass(frozen=True, slots=True)
class TransferFit:
    """What a copy takes, with bounds.

    Attributes:
        bytes_per_s: Bandwidth of a copy that is alone.
        latency_s: Fixed seconds.
        contention: By how much one more copy at the same time slows each, as a share of its bandwidth part.
        samples: Rows that it rests on.
        fit: Latency, seconds per byte and their product with the contention.
        source: Where they come from, with the weight of each part.
    """

    bytes_per_s: float
    latency_s: float
    contention: float
    samples: int
    fit: RobustFit
    source: str

    def seconds(self, moved_bytes: float, concurrent: float = 1.0) -> tuple[float, float, float]:
        """Seconds of one copy beside ``concurrent - 1`` others, and both ends of the 95 % interval."""
        return self.fit.predict([1.0, moved_bytes, moved_bytes * (concurrent - 1.0)])

    def estimates(self, name: str, age_s: float | None) -> tuple[Estimate, ...]:
        """Bandwidth, latency and contention as ``{name}_bytes_per_s`` and so on."""
        about = (self.samples, age_s, self.source)
        _, low, high = self.fit.interval(1)
        wide = min(_WIDEST, (high - low) * 0.5 * self.bytes_per_s)
        bandwidth = (self.bytes_per_s, self.bytes_per_s * math.exp(-wide), self.bytes_per_s * math.exp(wide))
        return (
            Estimate(f"{name}_bytes_per_s", *bandwidth, "bytes/s", *about),
            Estimate(f"{name}_latency_s", *self.fit.interval(0), "s", *about),
            Estimate(f"{name}_contention", *self._contention(), "1", *about),
        )

    def _contention(self) -> tuple[float, float, float]:
        """The ratio of two coefficients, with the interval that follows from the covariance of both."""
        s_per_byte = 1.0 / self.bytes_per_s
        slope = np.array([0.0, -self.contention / s_per_byte, 1.0 / s_per_byte])
        half = self.fit.quantile * math.sqrt(max(float(slope @ self.fit.covariance @ slope), 0.0))
        return self.contention, max(0.0, self.contention - half), min(self.contention + half, _MOST_CONTENTION)


class TransferModel:
    """Learns one direction of a link from copies as they finish.

    Args:
        table: What is assumed before anything was measured.
        source: Where the table's figures come from.
        max_samples: Most observations kept.
        window_s: Observations older than this no longer count.
    """

    def __init__(
        self, table: LinkSpec, source: str, max_samples: int = MAX_SAMPLES, window_s: float = WINDOW_S
    ) -> None:
        self._table, self._source = table, source
        self.window = SampleWindow(4, max_samples, window_s)

    def observe(
        self, at_s: float, moved_bytes: float, seconds: float, concurrent: float | None = None, copies: float = 1.0
    ) -> None:
        """A finished copy, or the sum over several; what says nothing is passed over.

        Args:
            at_s: When it finished.
            moved_bytes: Its bytes.
            seconds: How long it took.
            concurrent: Copies on the link meanwhile, itself included; ``None`` = as the times of all copies tell.
            copies: How many the sums are over.
        """
        if moved_bytes > 0.0 and copies > 0.0 and 0.0 < seconds < math.inf:
            beside = math.nan if concurrent is None else max(1.0, concurrent)
            self.window.add(at_s, copies, moved_bytes, beside, seconds)

    def fit(self, now_s: float) -> TransferFit:
        """The link as of now."""
        at_s, copies, moved_bytes, told, seconds = self.window.columns(now_s)
        concurrent = np.where(np.isnan(told), mean_concurrency(at_s, seconds), told)
        return fit_transfer(TransferSamples(copies, moved_bytes, concurrent, seconds), self._table, self._source)


def fit_transfer(samples: TransferSamples, table: LinkSpec, source: str) -> TransferFit:
    """Robust fit with a table's link as prior.

    Args:
        samples: What was seen; none at all gives the table back.
        table: The link as it is assumed, without contention measured: shared fairly.
        source: Where the table's figures come from.
    """
    beside = samples.moved_bytes * (samples.concurrent - 1.0)
    columns = np.stack([samples.copies, samples.moved_bytes, beside], axis=1)
    shape = np.array([table.latency_s, 1.0 / table.bytes_per_s, 1.0 / table.bytes_per_s])
    off = table_level(columns @ shape, samples.seconds, _SCALE_WEIGHT)
    mean = shape * np.array([1.0, np.exp(off), np.exp(off)])
    spread = mean * (TABLE_SPREAD_FRAC + abs(off))
    if len(samples.seconds):
        spread[0] = max(spread[0], _LATENCY_S, float(np.median(samples.seconds / samples.copies)))
    fit = fit_robustly(columns, samples.seconds, Prior(mean, np.maximum(spread, 1e-18)))
    n = len(samples.seconds)
    latency_s, s_per_byte, shared = map(float, fit.coefficients)
    s_per_byte = max(s_per_byte, float(mean[1]) * _LEAST_FRAC)  # a bandwidth is finite, however few bytes were moved
    if n:
        weight = fit.prior_share[1]
        source = f"{n} copies measured; weight of the table times {np.exp(off):.3g}: {weight:.0%} ({source})"
    contention = min(shared / s_per_byte, _MOST_CONTENTION)
    return TransferFit(1.0 / s_per_byte, latency_s, contention, n, fit, source)


def mean_concurrency(end_s: npt.ArrayLike, seconds: npt.ArrayLike) -> Column:
    """Copies that ran while each copy did, itself included, on average over its time. O(n log n).

    Args:
        end_s: ``(n,)`` times at which copies finished.
        seconds: ``(n,)`` how long each took, positive.
    """
    ends, taken = np.asarray(end_s, np.float64), np.asarray(seconds, np.float64)
    starts = ends - taken
    edges = np.concatenate([starts, ends])
    order = np.argsort(edges, kind="stable")
    steps = np.concatenate([np.ones_like(starts), -np.ones_like(ends)])[order]
    times = edges[order]
    running = np.cumsum(steps)
    busy_s = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(times))]) if len(times) else times
    place = np.empty(len(edges), np.int64)
    place[order] = np.arange(len(edges))
    total_s = busy_s[place[len(starts) :]] - busy_s[place[: len(starts)]]
    return np.asarray(np.maximum(total_s / taken, 1.0))
