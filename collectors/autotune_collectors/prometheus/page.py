"""From the text of a page to canonical signals: the semantic adapter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from autotune.core.signals import (
    CollectError,
    EngineInfo,
    Finding,
    FindingKind,
    HistogramReading,
    Reading,
    Signal,
    Snapshot,
)
from autotune_collectors.prometheus.body import page_text
from autotune_collectors.prometheus.catalogue import Catalogue, catalogues
from autotune_collectors.prometheus.grouping import Series, group
from autotune_collectors.prometheus.histograms import read_histograms
from autotune_collectors.prometheus.infos import declared, engine_info, missing, read_infos
from autotune_collectors.prometheus.iteration import iteration_page
from autotune_collectors.prometheus.lines import PageLines, line_reader
from autotune_collectors.prometheus.values import read_values

_MIB = 1024**2
MAX_PAGE_BYTES = 64 * _MIB


def read_page(page: bytes, *, target: str, at_s: float, version: str = "", model: str = "") -> Snapshot:
    """What a page of metrics says, in canonical signals.

    Args:
        page: Text in Prometheus' format, or the JSON of TensorRT-LLM's iteration statistics.
        target: Where it comes from.
        at_s: When it was taken.
        version: Of the engine, where it is known from elsewhere.
        model: Served model to read where the page shows several; empty = all, added up.

    Raises:
        CollectError: it is no such text, or nothing on it is known.
    """
    if len(page) > MAX_PAGE_BYTES:
        raise CollectError(
            f"a page of metrics has at most {MAX_PAGE_BYTES // _MIB} MiB",
            got=f"{len(page) // _MIB} MiB",
            remedy="ask the engine itself, not a gateway that collects many",
        )
    text, oddity = page_text(page)
    lines = iteration_page(text) or line_reader().read(text)
    parts = _by_catalogue(lines, version, model)
    if not parts:
        raise CollectError(
            "a page of metrics must come from an engine that is known here",
            got=f"{lines.n_samples} samples, none of them known",
            remedy=f"give the address of {', '.join(c.title for c in catalogues() if c.role == 'engine')}",
        )
    snapshot = _together(parts, target, at_s, model)
    odd = [*([oddity] if oddity else []), *_malformed(lines)]
    return replace(snapshot, findings=(*odd, *snapshot.findings), complete=not lines.n_malformed)


def engine_of(page: bytes) -> Catalogue | None:
    """The engine that serves a page, ``None`` if none is known."""
    text, _ = page_text(page)
    parts = _by_catalogue(iteration_page(text) or line_reader().read(text), "", "")
    return parts[0].catalogue if parts and parts[0].catalogue.role == "engine" else None


def _by_catalogue(lines: PageLines, version: str, model: str) -> list[Series]:
    """Series of each catalogue that is on the page, that of the engine first."""
    known = catalogues()
    numbers = Counter(sample.resolved.catalogue for sample in lines.samples)
    numbers.update(dict.fromkeys({resolved.catalogue for resolved in lines.announced.values()}, 0))
    order = sorted(numbers, key=lambda n: (_ROLES.index(known[n].role), -numbers[n], known[n].engine))
    found = []
    for number in order:
        chosen = (sample for sample in lines.samples if sample.resolved.catalogue == number)
        series = group(known[number], chosen, model)
        series.announced = {one.rest for one in lines.announced.values() if one.catalogue == number}
        series.prefix = series.prefix or next(
            (one.prefix for one in lines.announced.values() if one.catalogue == number), ""
        )
        series.version = version if known[number].role == "engine" else ""
        found.append(series)
    return found if any(series.catalogue.role != "process" for series in found) else []


_ROLES = ("engine", "layer", "process")


def _together(parts: list[Series], target: str, at_s: float, model: str) -> Snapshot:
    """One snapshot of an engine and the layers on its page: what the engine says itself wins."""
    engines = [series for series in parts if series.catalogue.role == "engine"]
    first = parts[0]
    first.findings += _other_engines(engines)
    readings: dict[Signal, Reading] = {}
    histograms: dict[Signal, HistogramReading] = {}
    facts: dict[str, str] = {}
    announced: frozenset[Signal] = frozenset()
    used = [series for series in parts if series not in engines[1:]]
    for series in used:
        values, told = read_infos(series, at_s)
        for signal, reading in (*read_values(series, at_s).items(), *values.items()):
            if signal not in readings or readings[signal].value is None:
                readings[signal] = reading
        for signal, histogram in read_histograms(series, at_s).items():
            histograms.setdefault(signal, histogram)
        facts |= {name: text for name, text in told.items() if name not in facts}
        announced |= declared(series)
    known = frozenset(s for s, one in readings.items() if one.value is not None) | frozenset(histograms)
    layers = tuple(series.catalogue.engine for series in used[1:] if series.catalogue.role == "layer")
    engine = engine_info(first, layers, facts, model) if first.catalogue.role != "process" else EngineInfo()
    findings = [finding for series in used for finding in series.findings]
    findings += missing(first, known, announced)
    return Snapshot(target, at_s, engine, readings, histograms, tuple(findings), announced - known)


def _other_engines(engines: list[Series]) -> list[Finding]:
    if len(engines) < 2:
        return []
    others = ", ".join(series.catalogue.title for series in engines[1:])
    return [
        Finding(
            FindingKind.AMBIGUOUS,
            engines[0].catalogue.title,
            f"the page is about {others} too, which is left out",
            "ask each engine itself",
        )
    ]


def _malformed(lines: PageLines) -> list[Finding]:
    if not lines.n_malformed:
        return []
    words = f"{lines.n_malformed:,} lines are no samples, the first: {lines.malformed[0]!r}"
    return [Finding(FindingKind.MALFORMED, "page", words, "what they would have said is unknown")]
