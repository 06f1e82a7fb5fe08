"""How full the tiers are, from whoever knows: the engine's own page, its plug-in, or its KV events."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.core.signals import Signal
from autotune.core.types import Tier
from autotune.daemon.target_view import TargetView


def used_bytes(targets: Sequence[TargetView], tier: Tier, kv_bytes_per_token: int, chunk_tokens: int) -> int | None:
    """Bytes of KV on a tier that a request could find, mean over the engines; ``None`` = one of them is not known.

    Args:
        targets: Engines, which are taken to be alike.
        tier: Which tier.
        kv_bytes_per_token: KV of one token.
        chunk_tokens: Tokens of one chunk of the host; 0 = not known.
    """
    each = [
        _on_device(target, kv_bytes_per_token)
        if tier is Tier.DEVICE
        else _on_host(target, kv_bytes_per_token, chunk_tokens)
        for target in targets
    ]
    known = [value for value in each if value is not None]
    return int(sum(known) / len(known)) if known and len(known) == len(each) else None


def _on_device(target: TargetView, per_token: int) -> float | None:
    """The page tells what running requests hold, which is less; only events tell what lies there."""
    return _by_events(target, Signal.DEVICE_RESIDENT_BLOCKS, per_token)


def _on_host(target: TargetView, per_token: int, chunk_tokens: int) -> float | None:
    stated, tokens = target.value(Signal.HOST_USED_BYTES), target.value(Signal.HOST_USED_TOKENS)
    if stated is not None:
        return stated
    chunks = target.value(Signal.PLUGIN_RESIDENT_CHUNKS)
    if tokens is None and chunks is not None and chunk_tokens:
        tokens = chunks * chunk_tokens
    if tokens is not None:
        return tokens * per_token
    return _by_events(target, Signal.HOST_RESIDENT_BLOCKS, per_token)


def _by_events(target: TargetView, signal: Signal, per_token: int) -> float | None:
    blocks = None if target.residents is None else target.residents.value(signal)
    block_tokens = target.value(Signal.BLOCK_TOKENS)
    return None if blocks is None or not block_tokens else blocks * block_tokens * per_token
