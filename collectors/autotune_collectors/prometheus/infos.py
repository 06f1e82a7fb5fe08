"""Settings that engines show as labels of a series, and what a page tells about its engine."""

from __future__ import annotations

import math

from autotune.core.signals import EngineInfo, Finding, FindingKind, Kind, Reading, Signal
from autotune_collectors.prometheus.grouping import Labels, Series
from autotune_collectors.prometheus.values import unusable

_WORDS = {"true": 1.0, "false": 0.0}
_UNKNOWN_WORDS = frozenset({"", "none", "null", "nan", "auto", "unknown"})
_MAX_FACT_CHARS = 512  # the path of a folder is the longest of them
# Settings that every rank repeats, as opposed to room, which each rank has of its own.
_REPEATED = frozenset({Signal.BLOCK_TOKENS, Signal.PREFIX_CACHING})


def read_infos(series: Series, at_s: float) -> tuple[dict[Signal, Reading], dict[str, str]]:
    """Readings from labels, and the labels that are told as they are.

    ``None`` as a text is unknown. Of several ranks room is added up and settings count once.
    """
    readings: dict[Signal, Reading] = {}
    facts: dict[str, str] = {}
    for info in series.catalogue.infos:
        ranks = [dict(labels) for labels, value in series.by_name.get(info.family, {}).items() if value == 1.0]
        for rank in ranks:
            for label in info.facts:
                text = rank.get(label, "")
                if text and text.lower() not in _UNKNOWN_WORDS:
                    facts.setdefault(label, text[:_MAX_FACT_CHARS])
        for signal, label in info.signals.items():
            numbers = [number for rank in ranks if (number := _number(signal, rank.get(label, ""))) is not None]
            if numbers and len(numbers) == len(ranks):
                value = max(numbers) if signal in _REPEATED else math.fsum(numbers)
                readings[signal] = Reading(value, at_s, f"{series.prefix}{info.family}{{{label}}}")
    return readings, facts


def engine_info(series: Series, layers: tuple[str, ...], facts: dict[str, str], model: str) -> EngineInfo:
    """Name, version, model and ranks; several models are a finding."""
    catalogue = series.catalogue
    every = {labels for values in series.by_name.values() for labels in values}
    models = _values(every, catalogue.model_labels)
    if len(models) > 1:
        series.findings.append(
            Finding(
                FindingKind.AMBIGUOUS,
                catalogue.title,
                f"the page is about {len(models)} models: {', '.join(sorted(models)[:4])}; their counts are added",
                "choose one with --model",
            )
        )
    ranks = max((len(_values(every, (label,))) for label in catalogue.rank_labels), default=1)
    name = model or (next(iter(models)) if len(models) == 1 else "")
    return EngineInfo(catalogue.engine, series.version or _age(series), name, layers, max(ranks, 1), facts)


def declared(series: Series) -> frozenset[Signal]:
    """Signals whose family is announced but has no sample yet."""
    found: set[Signal] = set()
    for signal, entries in series.catalogue.signals.items():
        for entry in entries:
            names = {entry.family, entry.family.removesuffix("_total")}
            if names & series.announced and not series.has(entry.family) and series.holds(entry):
                found.add(signal)
    return frozenset(found)


def missing(series: Series, known: frozenset[Signal], announced: frozenset[Signal]) -> list[Finding]:
    """What the engine should tell and does not."""
    return [
        Finding(FindingKind.MISSING, signal.value, _why_missing(series, signal, announced), remedy)
        for signal, remedy in series.catalogue.expected.items()
        if signal not in known
    ]


def _why_missing(series: Series, signal: Signal, announced: frozenset[Signal]) -> str:
    entries = series.catalogue.signals.get(signal, ())
    families = ", ".join(dict.fromkeys(f"{series.prefix}{one.family}" for one in entries if "." not in one.family))
    if signal in announced:
        return f"{families}: announced, but without a sample so far"
    kind = "no such histogram" if signal.spec.kind is Kind.HISTOGRAM else "no such series"
    return f"{families}: {kind} on the page" if families else "this engine has no series for it"


def _number(signal: Signal, text: str) -> float | None:
    word = text.strip().lower()
    if word in _UNKNOWN_WORDS:
        return None
    try:
        value = _WORDS[word] if word in _WORDS else float(word)
    except (ValueError, OverflowError):
        return None
    return None if unusable(signal, value, positive=signal is not Signal.PREFIX_CACHING) else value


def _values(every: set[Labels], names: tuple[str, ...]) -> set[str]:
    return {value for labels in every for name, value in labels if name in names and value}


def _age(series: Series) -> str:
    """What families tell about the version, such as ``after 0.28``."""
    return next((age.versions for age in series.catalogue.ages if series.has(age.family)), "")
