"""Counters that cannot all mean what their names say."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.advise.doctor.window import Window
from autotune.core.signals import Denominator, Finding, FindingKind, Signal

_MANY_TOKENS = 1_000.0  # below that, requests in flight explain a difference
_TOLERANCE = 0.05


def contradictions(window: Window) -> Iterator[Finding]:
    """All contradictions of a window."""
    yield from _hits_without_tokens(window)
    yield from _more_hits_than_queries(window)
    yield from _other_denominator(window)
    yield from _repeated_queries(window)
    yield from _sources_do_not_add_up(window)


def _hits_without_tokens(window: Window) -> Iterator[Finding]:
    """Something was found or loaded, and the tokens found stay at zero."""
    found = {
        signal: count
        for signal in (
            Signal.PLUGIN_LOOKUP_CHUNKS_HIT,
            Signal.HOST_HIT_CHUNKS,
            Signal.DISK_HIT_CHUNKS,
            Signal.LOAD_OPERATIONS,
            Signal.LOAD_BLOCKS,
            Signal.LOAD_BYTES,
        )
        if (count := window.count(signal))
    }
    if found and window.count(Signal.EXTERNAL_HIT_TOKENS) == 0.0:
        signal, count = next(iter(found.items()))
        yield _contradiction(
            Signal.EXTERNAL_HIT_TOKENS,
            f"{signal} rose by {count:,.0f} ({window.page.readings[signal].source}) while the tokens found behind the "
            "device stayed at 0",
            "loads without found tokens are thrown away or not counted: check the connector's version and its log, and "
            "believe the bytes",
        )
    reused = window.count(Signal.BLOCKS_REUSED)
    if reused and window.count(Signal.PREFIX_HIT_TOKENS) == 0.0:
        yield _contradiction(
            Signal.PREFIX_HIT_TOKENS,
            f"{reused:,.0f} blocks were reused while the tokens found on the device stayed at 0",
            "believe the blocks; the counter of tokens needs statistics of requests",
        )


def _more_hits_than_queries(window: Window) -> Iterator[Finding]:
    for hits, queries in (
        (Signal.PREFIX_HIT_TOKENS, Signal.PREFIX_QUERY_TOKENS),
        (Signal.EXTERNAL_HIT_TOKENS, Signal.EXTERNAL_QUERY_TOKENS),
    ):
        found, asked = window.count(hits), window.count(queries)
        if found is not None and asked is not None and found > asked:
            yield _contradiction(
                hits,
                f"{found:,.0f} tokens were found of {asked:,.0f} that were looked up",
                "the two counters are of different things or processes; give each process' own page",
            )


def _other_denominator(window: Window) -> Iterator[Finding]:
    """The rate behind the device is one of whole prompts, or queries are counted more than once."""
    reading = window.page.readings.get(Signal.EXTERNAL_QUERY_TOKENS)
    asked = window.count(Signal.EXTERNAL_QUERY_TOKENS)
    if reading is None or not asked:
        return
    if reading.denominator is Denominator.PROMPT:
        yield _contradiction(
            Signal.EXTERNAL_QUERY_TOKENS,
            f"{reading.source} counts whole prompts, what the device has too; its hit rate is no share of the misses",
            "do not compare it with an engine's external hit rate; subtract the device's hits first",
        )
        return
    queries, hits = window.count(Signal.PREFIX_QUERY_TOKENS), window.count(Signal.PREFIX_HIT_TOKENS)
    if queries is None or hits is None or queries - hits < _MANY_TOKENS:
        return
    misses = queries - hits
    if abs(asked - misses) > _TOLERANCE * misses:
        yield _contradiction(
            Signal.EXTERNAL_QUERY_TOKENS,
            f"{asked:,.0f} tokens were looked up behind the device, which lacked {misses:,.0f}",
            "waiting requests may be looked up again and again, or not at all where the tier is busy; the hit rate "
            "behind the device has another denominator than it seems",
        )


def _repeated_queries(window: Window) -> Iterator[Finding]:
    """Preempted requests look their own blocks up again and find them."""
    preempted = window.count(Signal.PREEMPTIONS)
    queries, prompts = window.count(Signal.PREFIX_QUERY_TOKENS), window.count(Signal.PROMPT_TOKENS)
    if not preempted or queries is None or not prompts or queries - prompts < _MANY_TOKENS:
        return
    again = queries - prompts
    if again <= _TOLERANCE * prompts:
        return
    hits = window.count(Signal.PREFIX_HIT_TOKENS)
    shown = "" if hits is None else f"; the rate of {_percent(hits / queries)} is {_true_range(hits, again, prompts)}"
    yield _contradiction(
        Signal.PREFIX_HIT_TOKENS,
        f"{queries:,.0f} tokens were looked up for {prompts:,.0f} of prompts, with {preempted:,.0f} preemptions{shown}",
        "preempted requests find their own blocks again, which saves nothing new: give running requests more room",
    )


def _true_range(hits: float, again: float, prompts: float) -> str:
    low, high = max(0.0, hits - again) / prompts, min(hits, prompts) / prompts
    return f"between {_percent(low)} and {_percent(high)} of the prompts"


def _sources_do_not_add_up(window: Window) -> Iterator[Finding]:
    prompts = window.count(Signal.PROMPT_TOKENS)
    parts = [
        window.count(signal)
        for signal in (Signal.COMPUTED_TOKENS, Signal.CACHED_DEVICE_TOKENS, Signal.CACHED_EXTERNAL_TOKENS)
    ]
    known = [part for part in parts if part is not None]
    if prompts is None or len(known) < len(parts):
        return
    total = sum(known)
    if abs(total - prompts) > max(_MANY_TOKENS, _TOLERANCE * prompts):
        yield _contradiction(
            Signal.PROMPT_TOKENS,
            f"computed and cached tokens add up to {total:,.0f}, prompts to {prompts:,.0f}",
            "some are counted when scheduled and some when finished; look for longer, or at a quieter moment",
        )


def _contradiction(signal: Signal, evidence: str, remedy: str) -> Finding:
    return Finding(FindingKind.CONTRADICTORY, signal.value, evidence, remedy)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"
