"""What happened in one interval, over all engines of a group, and in a window of several.

``None`` is unknown and stays unknown in every sum: a window that lacks one interval's figure does not
pretend to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.core.signals import HistogramReading, Rates, Signal, Snapshot
from autotune.daemon.bounds import Bounds, rate_bounds

_ADDED = (
    "prompt_tokens", "generation_tokens", "finished", "failed", "preemptions", "device_hit_tokens",
    "host_hit_tokens", "computed_tokens", "load_s", "store_s", "load_bytes", "store_bytes", "waiting",
    "prefills", "prefill_s", "prefill_tokens", "prefill_pairs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """Increases between two rounds of collecting.

    Attributes:
        seconds: Its length.
        prompt_tokens: Of requests whose prefill was done.
        generation_tokens: Generated.
        finished: Requests that ended, failed ones included.
        failed: Of those, the ones that ended in an error.
        preemptions: Running requests that lost their blocks.
        device_hit_tokens: Prompt tokens found on the device.
        host_hit_tokens: Prompt tokens found behind it.
        computed_tokens: Prompt tokens that had to be computed.
        load_s: Seconds of loads on the link.
        store_s: Seconds of stores on the link.
        load_bytes: Bytes of loads.
        store_bytes: Bytes of stores.
        waiting: Requests in the queue at the end.
        ttft: Times to the first token.
        prefills: Prefills that telemetry told of.
        prefill_s: Seconds that they took.
        prefill_tokens: Tokens that were computed in them.
        prefill_pairs: Pairs of tokens that attended to each other in them.
    """

    seconds: float
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: float | None = None
    failed: float | None = None
    preemptions: float | None = None
    device_hit_tokens: float | None = None
    host_hit_tokens: float | None = None
    computed_tokens: float | None = None
    load_s: float | None = None
    store_s: float | None = None
    load_bytes: float | None = None
    store_bytes: float | None = None
    waiting: float | None = None
    ttft: HistogramReading | None = None
    prefills: float | None = None
    prefill_s: float | None = None
    prefill_tokens: float | None = None
    prefill_pairs: float | None = None

    def beside(self, other: Interval) -> Interval:
        """Two engines in the same interval."""
        sums = {name: _sum((getattr(self, name), getattr(other, name))) for name in _ADDED}
        return replace(self, seconds=max(self.seconds, other.seconds), ttft=_together(self.ttft, other.ttft), **sums)


def interval_of(rates: Rates, after: Snapshot) -> Interval:
    """What one engine did between two snapshots, the later of which is ``after``."""
    device, host = _hits(rates)
    prompt = rates.delta(Signal.PROMPT_TOKENS)
    computed = rates.delta(Signal.COMPUTED_TOKENS)
    if computed is None and prompt is not None and device is not None:
        computed = max(0.0, prompt - device - (host or 0.0))
    return Interval(
        seconds=rates.seconds,
        prompt_tokens=prompt,
        generation_tokens=rates.delta(Signal.GENERATION_TOKENS),
        finished=rates.delta(Signal.REQUESTS_FINISHED),
        failed=rates.delta(Signal.REQUESTS_ERRORED),
        preemptions=rates.delta(Signal.PREEMPTIONS),
        device_hit_tokens=device,
        host_hit_tokens=host,
        computed_tokens=computed,
        load_s=rates.delta(Signal.LOAD_SECONDS),
        store_s=rates.delta(Signal.STORE_SECONDS),
        load_bytes=rates.delta(Signal.LOAD_BYTES),
        store_bytes=rates.delta(Signal.STORE_BYTES),
        waiting=after.value(Signal.REQUESTS_WAITING),
        ttft=rates.histograms.get(Signal.TTFT_S),
    )


def _hits(rates: Rates) -> tuple[float | None, float | None]:
    """Prompt tokens found on the device and behind it.

    Where an engine counts by source each token once, that is used: query counters count the lookups of a request that
    was preempted again.
    """
    device = rates.delta(Signal.CACHED_DEVICE_TOKENS)
    host = rates.delta(Signal.CACHED_EXTERNAL_TOKENS)
    if host is None:
        host = rates.delta(Signal.CACHED_HOST_TOKENS)
    return (
        rates.delta(Signal.PREFIX_HIT_TOKENS) if device is None else device,
        rates.delta(Signal.EXTERNAL_HIT_TOKENS) if host is None else host,
    )


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive intervals."""

    intervals: tuple[Interval, ...]

    @property
    def seconds(self) -> float:
        """Their length together."""
        return sum(each.seconds for each in self.intervals)

    def total(self, name: str) -> float | None:
        """Sum of one figure of :class:`Interval`; ``None`` where an interval lacks it or there is none."""
        return _sum(self.column(name)) if self.intervals else None

    def column(self, name: str) -> tuple[float | None, ...]:
        """One figure, interval by interval."""
        return tuple(getattr(each, name) for each in self.intervals)

    def pairs(
        self, part: Callable[[Interval], float | None], whole: Callable[[Interval], float | None]
    ) -> tuple[list[float], list[float]]:
        """Two figures of the intervals that know both."""
        both = [(part(each), whole(each)) for each in self.intervals]
        known = [(a, b) for a, b in both if a is not None and b is not None]
        return [a for a, _ in known], [b for _, b in known]

    @property
    def ttft(self) -> HistogramReading | None:
        """Times to the first token of all intervals that know them."""
        known = [each.ttft for each in self.intervals if each.ttft is not None]
        total = known[0] if known else None
        for histogram in known[1:]:
            total = _together(total, histogram)
        return total

    def ratio(
        self,
        part: Callable[[Interval], float | None],
        whole: Callable[[Interval], float | None],
        confidence: float,
    ) -> Bounds | None:
        """One figure over another in the intervals that know both, with bounds; ``None`` = too little is known."""
        return rate_bounds(*self.pairs(part, whole), confidence)

    def ttft_mean(self, confidence: float) -> Bounds | None:
        """Mean time to the first token, with bounds; ``None`` = too little is known."""
        return self.ratio(
            lambda each: None if each.ttft is None else each.ttft.sum,
            lambda each: None if each.ttft is None else each.ttft.count,
            confidence,
        )

    def share(self, part: str, whole: str) -> float | None:
        """One total over another; ``None`` where either is unknown or there is nothing to divide by."""
        above, below = self.total(part), self.total(whole)
        return None if above is None or not below else above / below


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _together(a: HistogramReading | None, b: HistogramReading | None) -> HistogramReading | None:
    if a is None or b is None or a.bounds != b.bounds:
        return None
    total = None if a.sum is None or b.sum is None else a.sum + b.sum
    counts = tuple(x + y for x, y in zip(a.counts, b.counts, strict=True))
    return HistogramReading(a.count + b.count, total, a.bounds, counts, max(a.at_s, b.at_s), a.source)
