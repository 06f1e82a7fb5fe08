"""Histograms: cumulated buckets of each series to counts per bucket, put together over ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from autotune.core.signals import Finding, FindingKind, HistogramReading, Kind, Signal
from autotune_collectors.prometheus.catalogue import Entry
from autotune_collectors.prometheus.grouping import Labels, Series
from autotune_collectors.prometheus.values import MAX_VALUE


@dataclass(slots=True)
class _Parts:
    """One series of a histogram as the page has it."""

    cumulated: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    sum: float | None = None


def read_histograms(series: Series, at_s: float) -> dict[Signal, HistogramReading]:
    """Readings of all histograms; findings are added to ``series``."""
    readings: dict[Signal, HistogramReading] = {}
    for signal, entries in series.catalogue.signals.items():
        if signal.spec.kind is not Kind.HISTOGRAM:
            continue
        found = (_reading(series, entry, at_s) for entry in entries if series.holds(entry))
        if (reading := next((one for one in found if one is not None), None)) is not None:
            readings[signal] = reading
    return readings


def _reading(series: Series, entry: Entry, at_s: float) -> HistogramReading | None:
    ranks = _over_shards(_collect(series, entry), series.catalogue.shard_labels)
    source = series.prefix + entry.family
    ranks = [parts for parts in ranks if parts.count is not None or parts.cumulated]  # a sum alone says nothing
    usable = [one for parts in ranks if (one := _one(parts, entry.scale)) is not None]
    if len(usable) < len(ranks):
        series.findings.append(
            Finding(FindingKind.MALFORMED, source, "a histogram's counts are no numbers, negative or not cumulated")
        )
    if not usable or len(usable) < len(ranks):
        return None  # a rank that cannot be read makes the sum wrong
    same_bounds = len({bounds for _, _, bounds, _ in usable}) == 1
    bounds = usable[0][2] if same_bounds else ()
    counts = tuple(math.fsum(column) for column in zip(*(one[3] for one in usable), strict=True)) if same_bounds else ()
    sums = [total for _, total, _, _ in usable if total is not None]
    total = math.fsum(sums) if len(sums) == len(usable) else None
    began = [value for value in series.by_name.get(f"{entry.family}_created", {}).values() if math.isfinite(value)]
    return HistogramReading(
        math.fsum(one[0] for one in usable), total, bounds, counts, at_s, source, max(began) if began else None
    )


def _collect(series: Series, entry: Entry) -> dict[Labels, _Parts]:
    found: dict[Labels, _Parts] = defaultdict(_Parts)
    for labels, value in series.by_name.get(f"{entry.family}_bucket", {}).items():
        bound = _bound(dict(labels).get("le", ""))
        if bound is not None:
            found[tuple(pair for pair in labels if pair[0] != "le")].cumulated[bound] = value
    for labels, value in series.by_name.get(f"{entry.family}_count", {}).items():
        found[labels].count = value
    for labels, value in series.by_name.get(f"{entry.family}_sum", {}).items():
        found[labels].sum = value
    wanted = entry.where.items()
    return {
        labels: parts
        for labels, parts in found.items()
        if all(dict(labels).get(label, "") in allowed for label, allowed in wanted)
    }


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _over_shards(found: dict[Labels, _Parts], shard_labels: tuple[str, ...]) -> list[_Parts]:
    """The fullest of the shards of each rank: they time the same requests."""
    ranks: dict[Labels, _Parts] = {}
    for labels, parts in found.items():
        rank = tuple(pair for pair in labels if pair[0] not in shard_labels)
        known = ranks.get(rank)
        if known is None or (parts.count or 0.0) > (known.count or 0.0):
            ranks[rank] = parts
    return list(ranks.values())


def _one(parts: _Parts, scale: float) -> tuple[float, float | None, tuple[float, ...], tuple[float, ...]] | None:
    """Count, sum, bounds and counts of one series, ``None`` if they make no sense."""
    bounds = sorted(parts.cumulated)
    cumulated = [parts.cumulated[bound] for bound in bounds]
    if bounds and bounds[-1] != math.inf:  # cut off, or written without the last bucket
        if parts.count is None:
            return None
        bounds, cumulated = [*bounds, math.inf], [*cumulated, parts.count]
    count = parts.count if parts.count is not None else (cumulated[-1] if cumulated else None)
    if count is None or not 0.0 <= count <= MAX_VALUE:
        return None
    counts = [now - before for before, now in zip([0.0, *cumulated], cumulated, strict=False)]
    if any(not 0.0 <= one <= MAX_VALUE for one in counts):
        return None
    total = parts.sum if parts.sum is not None and 0.0 <= parts.sum <= MAX_VALUE else None
    return (
        count,
        None if total is None else total * scale,
        tuple(bound * scale for bound in bounds),
        tuple(counts),
    )
