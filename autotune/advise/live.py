"""What presses on a running engine, from one reading of its page of metrics.

Counters are sums since the engine's start, over all its ranks. They say what was found and who had to wait, but not how
much reuse there is nor where prefixes diverge.
"""

from __future__ import annotations

from fractions import Fraction

from autotune.advise.pressure import DEFAULT_IDLE_S, Observations
from autotune.core import registry
from autotune.core.errors import ConfigError
from autotune.core.signals import FindingKind, ReadPage, Signal, Snapshot

_NEEDED = (
    Signal.DEVICE_KV_FRAC,
    Signal.PREFIX_QUERY_TOKENS,
    Signal.PREFIX_HIT_TOKENS,
    Signal.PREEMPTIONS,
    Signal.REQUESTS_WAITING,
    Signal.REQUEST_PROMPT_TOKENS,
    Signal.GENERATION_TOKENS,
)


def read_saved_page(page: bytes, *, target: str, at_s: float = 0.0, version: str = "", model: str = "") -> Snapshot:
    """What a page of metrics says, by the reader that is installed.

    Raises:
        CollectError: it is no page of an engine that is known.
        MissingExtraError: the reader needs packages that are not installed.
    """
    reader: ReadPage = registry.load(registry.PAGES, "metrics")
    return reader(page, target=target, at_s=at_s, version=version, model=model)


def observe_page(
    page: str,
    *,
    growth_bytes: Fraction,
    device_bytes: int,
    weights_bytes: int | None,
    break_even_tokens: int | None,
) -> Observations:
    """What one page says.

    Args:
        page: Text of the page.
        growth_bytes: KV of one token.
        device_bytes: KV that the device holds.
        weights_bytes: What a step reads besides KV.
        break_even_tokens: Length from which loading pays.

    Raises:
        AutotuneError: it is no page of a known engine, or lacks a signal that the advice rests on.
    """
    seen = read_saved_page(page.encode(), target="page")
    for signal in _NEEDED:
        if not seen.knows(signal):
            raise _lacks(seen, signal)
    running_bytes = round(_known(seen, Signal.DEVICE_KV_FRAC) * device_bytes)
    prompts = seen.histograms[Signal.REQUEST_PROMPT_TOKENS]
    tokens = (prompts.sum or 0.0) + _known(seen, Signal.GENERATION_TOKENS)
    return Observations(
        device_bytes=device_bytes,
        footprint_bytes=None,
        running_bytes=running_bytes,
        running_tokens=int(running_bytes / growth_bytes) if growth_bytes else 0,
        mean_context_tokens=tokens / prompts.count if prompts.count else 0.0,
        idle_frac=None,
        idle_return_frac=None,
        idle_s=DEFAULT_IDLE_S,
        device_hit_frac=_share(seen, Signal.PREFIX_HIT_TOKENS, Signal.PREFIX_QUERY_TOKENS) or 0.0,
        unbounded_hit_frac=None,
        read_frac=None if weights_bytes is None else running_bytes / (running_bytes + weights_bytes),
        break_even_tokens=break_even_tokens,
        places=(),
        host_hit_frac=_share(seen, Signal.EXTERNAL_HIT_TOKENS, Signal.EXTERNAL_QUERY_TOKENS),
        requests_short=round(_known(seen, Signal.PREEMPTIONS) + _known(seen, Signal.REQUESTS_WAITING)),
    )


def _lacks(seen: Snapshot, signal: Signal) -> ConfigError:
    """Why a signal is unknown: its series is there and says nothing, or is not there."""
    reading = seen.readings.get(signal)
    odd = [
        f.evidence
        for f in seen.findings
        if f.kind is FindingKind.MALFORMED and (reading is None or f.subject == reading.source)
    ]
    return ConfigError(
        f"advice needs a page with {signal} ({signal.spec.meaning})",
        got=f"one without; {odd[0]}" if odd else "one without",
        remedy="fetch /metrics of the engine itself, with its statistics on",
    )


def _known(seen: Snapshot, signal: Signal) -> float:
    return seen.value(signal) or 0.0


def _share(seen: Snapshot, part: Signal, whole: Signal) -> float | None:
    found, asked = seen.value(part), seen.value(whole)
    return found / asked if found is not None and asked else None
