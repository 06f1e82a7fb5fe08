"""What happened between two looks at the same target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.core.errors import AutotuneError
from autotune.core.signals.readings import HistogramReading, Reading, Snapshot
from autotune.core.signals.vocabulary import Kind, Signal

_START_TOLERANCE_S = 2.0  # some engines compute their start from an uptime


class SignalError(AutotuneError):
    """Signals cannot be compared as asked."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Increase of counters and histograms over an interval.

    Attributes:
        seconds: Length of the interval.
        reset: The engine, or one of its ranks, began anew in between. Nothing that was counted before belongs to what
            is counted now, so there are no increases: a new epoch begins.
        because: What shows the reset; empty without one.
        deltas: Increases of counters; a signal that is not here is unknown.
        histograms: Observations that were added.
    """

    seconds: float
    reset: bool = False
    because: str = ""
    deltas: Mapping[Signal, float] = field(default_factory=dict)
    histograms: Mapping[Signal, HistogramReading] = field(default_factory=dict)

    def delta(self, signal: Signal) -> float | None:
        """Increase, ``None`` if it is unknown."""
        return self.deltas.get(signal)

    def per_second(self, signal: Signal) -> float | None:
        """Increase per second, ``None`` if it is unknown."""
        delta = self.deltas.get(signal)
        return None if delta is None or self.seconds <= 0.0 else delta / self.seconds


def rates(before: Snapshot, after: Snapshot) -> Rates:
    """Increases from one snapshot to a later one of the same target.

    Raises:
        SignalError: the second was not taken later.
    """
    seconds = after.at_s - before.at_s
    if seconds <= 0.0:
        raise SignalError("a rate needs a snapshot and a later one", got=f"{seconds:g} s between them")
    if because := _restart(before, after):
        return Rates(seconds, reset=True, because=because)
    deltas: dict[Signal, float] = {}
    for signal, now in after.readings.items():
        if signal.spec.kind is not Kind.COUNTER or now.value is None:
            continue
        earlier = before.readings.get(signal)
        if earlier is None or earlier.value is None:
            if signal in before.declared:
                deltas[signal] = now.value
            continue
        if (added := _added(earlier, now)) is None:
            return Rates(seconds, reset=True, because=f"{now.source} went back")
        deltas[signal] = added
    return _with_histograms(before, after, seconds, deltas)


def since_start(snapshot: Snapshot, seconds: float) -> Rates:
    """What one page counts since the engine began, as if it had been zero before."""
    counters = {
        signal: reading.value
        for signal, reading in snapshot.readings.items()
        if signal.spec.kind is Kind.COUNTER and reading.value is not None
    }
    return Rates(seconds, deltas=counters, histograms=snapshot.histograms)


def _with_histograms(before: Snapshot, after: Snapshot, seconds: float, deltas: dict[Signal, float]) -> Rates:
    histograms: dict[Signal, HistogramReading] = {}
    for signal, now in after.histograms.items():
        earlier = before.histograms.get(signal)
        if earlier is None:
            if signal in before.declared:
                histograms[signal] = now
            continue
        added = _histogram_added(earlier, now)
        if added is None:
            return Rates(seconds, reset=True, because=f"{now.source} went back")
        histograms[signal] = added
    return Rates(seconds, deltas=deltas, histograms=histograms)


def _restart(before: Snapshot, after: Snapshot) -> str:
    """What shows that the target is not the same process; empty if nothing does."""
    if before.engine.name != after.engine.name:
        return f"the engine was {before.engine.name or 'unknown'} and is {after.engine.name or 'unknown'}"
    if before.engine.model and after.engine.model and before.engine.model != after.engine.model:
        return f"the model was {before.engine.model} and is {after.engine.model}"
    started, starts = before.value(Signal.PROCESS_START_S), after.value(Signal.PROCESS_START_S)
    if started is not None and starts is not None and abs(starts - started) > _START_TOLERANCE_S:
        return "the process began anew"
    return ""


def _added(before: Reading, after: Reading) -> float | None:
    """Increase of a counter, ``None`` after a reset of any of its series."""
    if before.value is None or after.value is None:
        return None
    total = after.value - before.value
    if before.source != after.source or not before.series or not after.series:
        return total if total >= 0.0 else None  # another name of the same thing, which engines add as they go
    if any(after.series.get(labels, -1.0) < value for labels, value in before.series.items()):
        return None
    began = before.created_s, after.created_s
    if before.series.keys() == after.series.keys() and None not in began and began[0] != began[1]:
        return None  # it grew past its old value after a restart
    return total


def _histogram_added(before: HistogramReading, after: HistogramReading) -> HistogramReading | None:
    """Observations added, ``None`` after a reset or a change of buckets."""
    if before.bounds != after.bounds or after.count < before.count or before.source != after.source:
        return None
    counts = tuple(now - earlier for earlier, now in zip(before.counts, after.counts, strict=True))
    if any(count < 0.0 for count in counts):
        return None
    total = None if before.sum is None or after.sum is None else after.sum - before.sum
    return HistogramReading(
        after.count - before.count, total, after.bounds, counts, after.at_s, after.source, after.created_s
    )
