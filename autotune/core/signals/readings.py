"""What one look at one target yields: readings, histograms, and what was odd about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.core.signals.vocabulary import Signal


class FindingKind(StrEnum):
    """What is odd about a page or about what it says."""

    MISSING = "missing"
    ALIASED = "aliased"
    CONTRADICTORY = "contradictory"
    MISCONFIGURED = "misconfigured"
    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"
    NOTE = "note"


class Denominator(StrEnum):
    """What the queries of a tier count: the tokens of whole prompts, or only those that the device lacks."""

    PROMPT = "prompt"
    DEVICE_MISSES = "device_misses"


@dataclass(frozen=True, slots=True)
class Finding:
    """One odd thing, what shows it, and what to do.

    Attributes:
        kind: What sort of thing.
        subject: The series, signal or setting that it is about.
        evidence: What was seen.
        remedy: What the reader can do; empty where there is nothing to do.
    """

    kind: FindingKind
    subject: str
    evidence: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One counter or gauge.

    Attributes:
        value: In the unit of its signal, over all ranks; ``None`` is unknown, never zero.
        at_s: When it was taken, on the clock of the collector.
        source: Name of the series that it comes from.
        series: Label set and value of each series that the value is made of, so that the reset of one rank shows even
            while the sum grows.
        created_s: Unix time at which the newest of its series began, where the page tells.
        denominator: What it counts, where engines differ.
    """

    value: float | None
    at_s: float
    source: str
    series: Mapping[str, float] = field(default_factory=dict)
    created_s: float | None = None
    denominator: Denominator | None = None


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A histogram, over all ranks.

    Attributes:
        count: Observations.
        sum: Their sum, in the unit of the signal; ``None`` where the page lacks it.
        bounds: ``(n,)`` upper bounds, increasing, the last one infinite; empty where the page has no buckets.
        counts: ``(n,)`` observations in each bucket, not cumulated.
        at_s: When it was taken.
        source: Name of the family.
        created_s: Unix time at which the newest of its series began, where the page tells.
    """

    count: float
    sum: float | None
    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    at_s: float = 0.0
    source: str = ""
    created_s: float | None = None

    @property
    def mean(self) -> float | None:
        """Mean of what was observed, ``None`` if nothing was."""
        return self.sum / self.count if self.sum is not None and self.count > 0.0 else None

    def quantile(self, frac: float) -> float | None:
        """Upper end of the bucket in which the quantile lies, ``None`` without observations or buckets.

        Infinite where it lies beyond the last finite bound: the page cannot say more.
        """
        total = sum(self.counts)
        if total <= 0.0:
            return None
        seen = 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            seen += count
            if seen >= frac * total:
                return bound
        return math.inf


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Who serves the page.

    Attributes:
        name: Engine, such as ``vllm``; empty if it was not recognised.
        version: As the engine states it; empty if it does not.
        model: Served model; empty if the page names none or several.
        layers: KV layers that speak on the same page, such as ``lmcache``.
        ranks: Data-parallel ranks that the page shows.
        facts: Settings that the page tells, by the engine's own names, such as ``cache_dtype``.
    """

    name: str = ""
    version: str = ""
    model: str = ""
    layers: tuple[str, ...] = ()
    ranks: int = 1
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at one target.

    Attributes:
        target: Where it was taken, without credentials.
        at_s: When, on the clock of the collector.
        engine: Who serves it.
        readings: Counters and gauges; a signal that is not here is unknown.
        histograms: Histograms.
        findings: What was odd.
        declared: Signals whose series the page announces but has not used yet; their counters begin at zero.
        complete: Whether every line could be read; otherwise the page says nothing about what it lacks.
    """

    target: str
    at_s: float
    engine: EngineInfo = EngineInfo()
    readings: Mapping[Signal, Reading] = field(default_factory=dict)
    histograms: Mapping[Signal, HistogramReading] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    declared: frozenset[Signal] = frozenset()
    complete: bool = True

    def value(self, signal: Signal) -> float | None:
        """Value of a counter or gauge, ``None`` if it is unknown."""
        reading = self.readings.get(signal)
        return None if reading is None else reading.value

    def histogram(self, signal: Signal) -> HistogramReading | None:
        """A histogram, ``None`` if it is unknown."""
        return self.histograms.get(signal)

    def knows(self, signal: Signal) -> bool:
        """Whether the page gave a value or a histogram."""
        return self.value(signal) is not None or signal in self.histograms
