"""Counters and gauges: from series to one figure per signal, over shards and ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from autotune.core.signals import Finding, FindingKind, Kind, Reading, Signal, Unit
from autotune_collectors.prometheus.catalogue import Entry
from autotune_collectors.prometheus.grouping import Labels, Series

MAX_VALUE = 1e300  # any number of these adds up to a finite one
_MAX_FRAC = 1.0 + 1e-6
_SAME = 0.01  # two names of one thing that differ by less were scraped while it moved
_PUT_TOGETHER: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "max": max,
    "min": min,
}


def read_values(series: Series, at_s: float) -> dict[Signal, Reading]:
    """Readings of all counters and gauges; findings are added to ``series``.

    A signal whose series is there without a usable value is there with ``None``.
    """
    readings: dict[Signal, Reading] = {}
    for signal, entries in series.catalogue.signals.items():
        if signal.spec.kind is Kind.HISTOGRAM:
            continue
        found = [
            (entry, name, matched)
            for entry in entries
            if series.holds(entry)
            and (name := series.spelled(entry.family, counter=signal.spec.kind is Kind.COUNTER)) is not None
            and (matched := _matching(series.by_name[name], entry))
        ]
        chosen: Reading | None = None
        for entry, name, matched in found:
            if chosen is None or chosen.value is None:
                reading = _reading(series, signal, entry, name, matched, at_s)
                chosen = reading if chosen is None or reading.value is not None else chosen
            elif entry.deprecated:
                _tell_alias(series, signal, chosen, _reading(series, signal, entry, name, matched, at_s))
        if chosen is not None:
            readings[signal] = chosen
    return readings


def unusable(signal: Signal, value: float, *, positive: bool) -> str:
    """Why a value says nothing; empty if it does.

    Engines write -1, NaN or 0 for what they do not know.
    """
    if not abs(value) <= MAX_VALUE:  # NaN is not
        return f"{value} is no number"
    if value < 0.0:
        return f"{value:g} is how the engine says unknown"
    if positive and value == 0.0:
        return "0 is how the engine says unknown"
    if signal.spec.unit is Unit.FRACTION and value > _MAX_FRAC:
        return f"{value:g} is no share of one; percent or another unit"
    return ""


def _matching(values: dict[Labels, float], entry: Entry) -> dict[Labels, float]:
    if not entry.where:
        return values
    return {labels: value for labels, value in values.items() if _fits(dict(labels), entry)}


def _fits(labels: dict[str, str], entry: Entry) -> bool:
    return all(labels.get(label, "") in allowed for label, allowed in entry.where.items())


def _reading(
    series: Series, signal: Signal, entry: Entry, name: str, matched: dict[Labels, float], at_s: float
) -> Reading:
    source = series.prefix + name
    values = {labels: value * entry.scale for labels, value in matched.items()}
    reasons = {reason for value in values.values() if (reason := unusable(signal, value, positive=entry.positive))}
    if reasons:
        series.findings.append(
            Finding(
                FindingKind.MALFORMED, source, f"{sorted(reasons)[0]}; {signal} is unknown", _REMEDIES.get(signal, "")
            )
        )
        return Reading(None, at_s, source)
    ranks = _over_shards(values, series.catalogue.shard_labels, entry.shards)
    scope = entry.scope or ("mean" if signal.spec.unit is Unit.FRACTION else "sum")
    total = _PUT_TOGETHER[scope](list(ranks.values()))
    if signal.spec.kind is not Kind.COUNTER:
        return Reading(total, at_s, source, denominator=entry.denominator)
    parts = {_label_text(labels): value for labels, value in ranks.items()}
    return Reading(total, at_s, source, parts, _created_s(series, name, matched), entry.denominator)


def _over_shards(values: dict[Labels, float], shard_labels: tuple[str, ...], how: str) -> dict[Labels, float]:
    """One value per rank: shards hold parts of the same tokens, so counts of tokens are equal and bytes add up."""
    ranks: dict[Labels, float] = {}
    for labels, value in values.items():
        rank = tuple(pair for pair in labels if pair[0] not in shard_labels)
        known = ranks.get(rank)
        if known is None:
            ranks[rank] = value
        else:
            ranks[rank] = max(known, value) if how == "max" else known + value
    return ranks


def _created_s(series: Series, name: str, matched: Iterable[Labels]) -> float | None:
    """When the newest of some series began, where the page tells of all of them."""
    stem = name.removesuffix("_total")
    began = series.by_name.get(f"{stem}_created", {})
    times = [began[labels] for labels in matched if labels in began and math.isfinite(began[labels])]
    return max(times) if times else None


def _label_text(labels: Labels) -> str:
    return ",".join(f"{name}={value}" for name, value in labels)


def _tell_alias(series: Series, signal: Signal, chosen: Reading, other: Reading) -> None:
    words = f"{other.source} says the same under its old name; only {chosen.source} counts"
    series.findings.append(Finding(FindingKind.ALIASED, chosen.source, words))
    if chosen.value is not None and other.value is not None and _differ(chosen.value, other.value):
        evidence = f"{chosen.source} is {chosen.value:g}, {other.source} is {other.value:g}; both are {signal}"
        series.findings.append(Finding(FindingKind.CONTRADICTORY, chosen.source, evidence, _WHY_ALIASES_DIFFER))


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _SAME * max(abs(one), abs(other)) and abs(one - other) > 1.0


_WHY_ALIASES_DIFFER = "believe neither before you know which one the engine still counts"
_REMEDIES = {
    Signal.DEVICE_HIT_FRAC: "use the counters of hits and queries instead, or ask when there is traffic",
    Signal.HOST_HIT_FRAC: "use the counters of hits and queries instead, or ask when there is traffic",
}
