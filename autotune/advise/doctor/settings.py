"""Settings that waste what the machine has, as far as counters show them."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.advise.doctor.figures import Figures
from autotune.advise.doctor.window import Window
from autotune.core.signals import Finding, FindingKind, Signal
from autotune.core.units import GIB

_MANY_TOKENS = 20_000.0
_MIN_STORED_BYTES = 64 * 1024**2
_PAYS_FRAC = 0.05  # of what was stored is loaded again
_MANY_PREEMPTIONS_FRAC = 0.01
_FULL_FRAC = 0.9
_SEEDED_HASHES = frozenset({"builtin", "xxhash", "xxhash_cbor"})
_SAME_SEED = (
    "set PYTHONHASHSEED to the same number for every process that shares the tier, else they do not find what another "
    "one stored"
)


def misconfigurations(window: Window, seen: Figures) -> Iterator[Finding]:
    """All that looks like a wrong setting."""
    yield from _prefix_caching_off(window)
    yield from _host_smaller_than_device(window, seen)
    yield from _seeds_differ(window)
    yield from _stores_never_pay(window)
    yield from _loads_cost_more(window, seen)
    yield from _stores_fail(window)
    yield from _too_little_room(window, seen)
    yield from _plugin_trouble(window)


def _prefix_caching_off(window: Window) -> Iterator[Finding]:
    if window.page.value(Signal.PREFIX_CACHING) == 0.0:
        yield _wrong("prefix caching", "the engine says that it is off", "turn it on before anything else is tuned")


def _host_smaller_than_device(window: Window, seen: Figures) -> Iterator[Finding]:
    """A host tier that only repeats the device finds nothing that the device lacks."""
    host, unit, device = _tiers(window, seen)
    if host is None or device is None or host >= device:
        return
    yield _wrong(
        "host tier",
        f"the host holds {host:,.0f} {unit}, the device {device:,.0f}",
        "give the host several times the device's room, or store only what the device evicts; a smaller copy of the "
        "same blocks finds next to nothing",
    )


def _tiers(window: Window, seen: Figures) -> tuple[float | None, str, float | None]:
    """Room of host and device in the same unit, where the page tells both."""
    page = window.page
    tokens = page.value(Signal.HOST_CAPACITY_TOKENS)
    if tokens is not None and seen.device_tokens is not None:
        return tokens, "tokens", seen.device_tokens
    n_bytes = host_tier_bytes(window)
    if n_bytes is not None and page.value(Signal.DEVICE_KV_BYTES) is not None:
        return n_bytes, "bytes", page.value(Signal.DEVICE_KV_BYTES)
    if n_bytes is not None and seen.device_tokens is not None and seen.bytes_per_token:
        return n_bytes / seen.bytes_per_token, "tokens", seen.device_tokens
    blocks = _number(page.engine.facts.get("capacity_blocks"))
    return blocks, "blocks", page.value(Signal.DEVICE_BLOCKS)


def host_tier_bytes(window: Window) -> float | None:
    """Size of the host tier, where the page tells."""
    return window.page.value(Signal.HOST_CAPACITY_BYTES) or _stated_bytes(window)


def _stated_bytes(window: Window) -> float | None:
    """VLLM's --kv-offloading-size is in GiB."""
    stated = _number(window.page.engine.facts.get("kv_offloading_size"))
    return None if stated is None else stated * GIB


def _seeds_differ(window: Window) -> Iterator[Finding]:
    """Where processes share a tier, hashes must not depend on the process.

    Source: vLLM, v1/core/kv_cache_utils.py: without PYTHONHASHSEED the first hash of a chain is random in every process
    up to 0.28, and with hashes that are not cryptographic in 0.32 too.
    """
    page = window.page
    shares = page.engine.ranks > 1 or bool({"lmcache", "lmcache-mp"} & set(page.engine.layers)) or _has_disk(window)
    if not shares:
        return
    asked, found = window.count(Signal.EXTERNAL_QUERY_TOKENS), window.count(Signal.EXTERNAL_HIT_TOKENS)
    algorithm = page.engine.facts.get("prefix_caching_hash_algo", "")
    if (asked or 0.0) >= _MANY_TOKENS and found == 0.0 and _stored(window):
        evidence = f"blocks were stored, and of {asked:,.0f} tokens looked up behind the device none was found"
        yield _wrong("hash of blocks", evidence, _SAME_SEED)
    elif algorithm in _SEEDED_HASHES:
        evidence = (
            f"{algorithm} begins at a random value in every process unless PYTHONHASHSEED is set, which no page shows"
        )
        yield Finding(FindingKind.NOTE, "hash of blocks", evidence, _SAME_SEED)


def _has_disk(window: Window) -> bool:
    return any(window.page.value(s) is not None for s in (Signal.DISK_WRITE_BYTES, Signal.DISK_WRITE_BLOCKS))


def _stored(window: Window) -> bool:
    kinds = (Signal.STORE_BYTES, Signal.STORE_BLOCKS, Signal.STORE_TOKENS, Signal.STORE_OPERATIONS)
    return any(window.count(signal) for signal in kinds)


def _stores_never_pay(window: Window) -> Iterator[Finding]:
    for stored, loaded in (
        (Signal.STORE_BYTES, Signal.LOAD_BYTES),
        (Signal.STORE_TOKENS, Signal.LOAD_TOKENS),
        (Signal.STORE_BLOCKS, Signal.LOAD_BLOCKS),
    ):
        out, back = window.count(stored), window.count(loaded)
        if out is None or (back is None and loaded not in window.page.declared):
            continue
        enough = _MIN_STORED_BYTES if stored is Signal.STORE_BYTES else 1_000.0
        back = back or 0.0
        if out >= enough and back < _PAYS_FRAC * out:
            unit = stored.spec.unit.value
            yield _wrong(
                "offload",
                f"{out:,.0f} {unit} were stored and {back:,.0f} loaded ({100.0 * back / out:.1f} %)",
                "what is stored does not come back: store at eviction or at the second use, make the tier larger if "
                "reuse comes later than it remembers, else turn offload off",
            )
        return


def _loads_cost_more(window: Window, seen: Figures) -> Iterator[Finding]:
    loaded, load_s = window.count(Signal.EXTERNAL_HIT_TOKENS), window.count(Signal.LOAD_SECONDS)
    if not loaded or load_s is None or seen.prefill_s_per_token_high is None:
        return
    compute_s = loaded * seen.prefill_s_per_token_high
    if load_s > compute_s:
        yield _wrong(
            "loads",
            f"loading {loaded:,.0f} tokens took {load_s:,.2f} s, computing them takes at most {compute_s:,.2f} s",
            "load only longer runs (the break-even length of 'kv-autotune plan'), or find what slows the link",
        )


def _stores_fail(window: Window) -> Iterator[Finding]:
    failed = window.count(Signal.STORE_FAILURES)
    if failed:
        yield _wrong(
            "host tier",
            f"{failed:,.0f} stores found no room ({window.page.readings[Signal.STORE_FAILURES].source})",
            "make the host tier larger or store less: transfers in flight hold what would have to be evicted",
        )
    pinned = window.page.value(Signal.HOST_PINNED_FRAC)
    if pinned is not None and pinned > _FULL_FRAC:
        yield _wrong(
            "host tier",
            f"transfers hold {100.0 * pinned:.0f} % of it at the moment",
            "the link is slower than what is stored: store less",
        )


def _too_little_room(window: Window, seen: Figures) -> Iterator[Finding]:
    preempted = window.count(Signal.PREEMPTIONS)
    if preempted and seen.requests and preempted > _MANY_PREEMPTIONS_FRAC * seen.requests:
        yield _wrong(
            "device tier",
            f"{preempted:,.0f} preemptions in {seen.requests:,.0f} requests",
            "running requests do not fit: quantise the KV, run fewer at once, or give it more memory; no policy helps "
            "against that",
        )


def _plugin_trouble(window: Window) -> Iterator[Finding]:
    for signal, remedy in (
        (Signal.PLUGIN_FALLBACKS, "the engine runs stock LRU since: read its log for the fault"),
        (Signal.PLUGIN_RELOAD_ERRORS, "the policy on disk is not the one in force: 'kv-autotune explain' checks it"),
        (Signal.PLUGIN_LOST_RECORDS, "the consumer of telemetry is too slow or gone; what it recorded has gaps"),
    ):
        count = window.page.value(signal)
        if count:
            yield _wrong("plug-in", f"{count:,.0f} {signal.spec.meaning}", remedy)


def _wrong(subject: str, evidence: str, remedy: str) -> Finding:
    return Finding(FindingKind.MISCONFIGURED, subject, evidence, remedy)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0.0 < value < 1e300 else None
