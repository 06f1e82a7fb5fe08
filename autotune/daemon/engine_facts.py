"""What a search must know of an engine: model, KV bytes per token, budgets. From whoever says it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.core.policy import Budgets, PolicyDocument
from autotune.core.signals import EngineTold, Signal
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import EngineSemantics, Tier
from autotune.daemon.target_view import TargetView

_VLLM = "vllm"
_UNKNOWN_DTYPE = "unknown"
_TELEMETRY_FACT = "telemetry"
# Source: vLLM 0.32, config/cache.py: the window of a model all of whose layers have one.
_WINDOW_FACT = "sliding_window"
# Blocks of a device's pool that never hold KV. Source: vLLM 0.24 to 0.33, v1/core/block_pool.py (null_block).
_EMPTY_BLOCKS = {_VLLM: 1}


@dataclass(frozen=True, slots=True)
class GivenFacts:
    """What the user said, in bytes; ``None`` = not said."""

    device_bytes: int | None = None
    host_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One engine of the group; all of them are taken to be alike.

    Attributes:
        engine: Kind of engine, such as ``vllm``.
        model: Model that it serves.
        kv_dtype: Element type of its KV cache.
        kv_bytes_per_token: KV of one token over all layers and ranks.
        budgets: Bytes per tier.
        unfit: Why it could obey neither a learned rule nor a lazy store; ``None`` = it could.
    """

    engine: str
    model: str
    kv_dtype: str
    kv_bytes_per_token: int
    budgets: Budgets
    unfit: str | None = None

    @property
    def semantics(self) -> EngineSemantics:
        """By whose rules its host works."""
        is_known = self.engine == _VLLM and self.budgets.host_bytes > 0
        return EngineSemantics.VLLM_0_32 if is_known else EngineSemantics.CANONICAL


def profile_of(
    targets: Sequence[TargetView], facts: StreamFacts | None, given: GivenFacts, confirmed: PolicyDocument | None
) -> EngineProfile | str:
    """The engine, or what is missing to know it, in words."""
    view = next((target for target in targets if target.snapshot is not None), None)
    if view is None or view.snapshot is None:
        return "no engine has answered yet"
    known = None if confirmed is None else confirmed.fingerprint
    # The plug-in holds a policy against its own name of the model, which may differ from the one that is served.
    model = _bare(facts.model) if facts and facts.model else (known.model if known else "") or view.model or ""
    per_token = (facts.kv_bytes_per_token if facts else 0) or (known.kv_bytes_per_token if known else 0)
    if not model or not per_token:
        return "neither the engine's telemetry nor a policy says the model and its KV bytes per token"
    chunk_tokens = facts.chunk_tokens if facts else 0
    device = (
        given.device_bytes or _device_bytes(view, per_token) or (confirmed.budgets.device_bytes if confirmed else 0)
    )
    host = given.host_bytes
    if host is None:
        host = _host_bytes(view, per_token, chunk_tokens)
    if host is None:
        host = confirmed.budgets.host_bytes if confirmed else 0
    if not device:
        return "the size of the device's KV cache is not known; give --device-gib"
    dtype = view.snapshot.engine.facts.get("cache_dtype", "") or (known.kv_dtype if known else _UNKNOWN_DTYPE)
    budgets = Budgets(device_bytes=device, host_bytes=host)
    unfit = why_unfit(view, facts, host)
    return EngineProfile(view.snapshot.engine.name, model, dtype, per_token, budgets, unfit)


def why_unfit(view: TargetView, facts: StreamFacts | None, host_bytes: int) -> str | None:
    """Why an engine could obey neither a learned rule nor a lazy store; ``None`` = it could.

    Records come from the plug-in's connector alone, so where there are any, requests that end are heard of. That its
    layers are of one kind is taken from a plug-in that does not say so: a trial shows whether it obeys.

    Args:
        view: The engine.
        facts: What its telemetry said; ``None`` = nothing yet.
        host_bytes: Size of its host tier.
    """
    engine = view.snapshot.engine if view.snapshot is not None else None
    if engine is None or engine.name != _VLLM or facts is None:
        return "only vLLM with the plug-in's connector and telemetry obeys one"
    if not host_bytes:
        return "there is no host tier, so there is nothing to decide"
    block_tokens = view.value(Signal.BLOCK_TOKENS)
    if not block_tokens or facts.chunk_tokens != block_tokens:
        chunks = f"chunks of {facts.chunk_tokens} tokens in blocks of {int(block_tokens or 0) or 'unknown size'}"
        return f"it needs chunks of one block, and the engine has {chunks}"
    if facts.n_groups > 1 or engine.facts.get(_WINDOW_FACT):
        return "it needs full attention in all layers, and the model has windows or layers of several kinds"
    return None


def told_by(view: TargetView, facts: StreamFacts | None) -> EngineTold | None:
    """What an engine's page, and its telemetry, tell its other sources; ``None`` = it has not answered yet.

    Args:
        view: The engine.
        facts: What its telemetry said; ``None`` = nothing yet.
    """
    if view.snapshot is None:
        return None
    engine = view.snapshot.engine
    kv_bytes = facts.kv_bytes_per_token if facts is not None else 0
    stream = StreamFacts(view.engine or "", view.model or "", int(view.value(Signal.BLOCK_TOKENS) or 0), kv_bytes)
    room = {
        Tier.DEVICE: _device_blocks(view),
        Tier.HOST: _host_blocks(view, facts.chunk_tokens if facts is not None else 0),
    }
    # Of several ranks the page has the sum, and events are of one of them.
    capacity = {tier: blocks for tier, blocks in room.items() if blocks and engine.ranks == 1}
    return EngineTold(stream, capacity, engine.facts.get(_TELEMETRY_FACT, ""))


def _device_blocks(view: TargetView) -> int:
    """Blocks that can lie on the device; 0 = not known."""
    blocks, block_tokens = view.value(Signal.DEVICE_BLOCKS), view.value(Signal.BLOCK_TOKENS)
    if blocks:
        engine = view.snapshot.engine.name if view.snapshot is not None else ""
        return int(blocks) - _EMPTY_BLOCKS.get(engine, 0)
    tokens = view.value(Signal.DEVICE_CAPACITY_TOKENS)
    return int(tokens // block_tokens) if tokens and block_tokens else 0


def _host_blocks(view: TargetView, chunk_tokens: int) -> int:
    """Chunks that can lie on the host, where each is one block; 0 = not known.

    A chunk of several blocks is one event with the hash of the last, or with all of them, as the engine is set.
    """
    block_tokens = view.value(Signal.BLOCK_TOKENS)
    chunks = view.value(Signal.PLUGIN_CAPACITY_CHUNKS)
    return int(chunks) if chunks and block_tokens and chunk_tokens == block_tokens else 0


def _bare(model: str) -> str:
    """A name as it is, and of a folder its last part: where a model lies is nobody's business."""
    return PurePosixPath(model).name if model.startswith("/") else model


def _device_bytes(view: TargetView, per_token: int) -> int:
    stated, tokens = view.value(Signal.DEVICE_KV_BYTES), view.value(Signal.DEVICE_CAPACITY_TOKENS)
    if stated:
        return int(stated)
    blocks, block_tokens = view.value(Signal.DEVICE_BLOCKS), view.value(Signal.BLOCK_TOKENS)
    if not tokens and blocks and block_tokens:
        tokens = blocks * block_tokens
    return int((tokens or 0.0) * per_token)


def _host_bytes(view: TargetView, per_token: int, chunk_tokens: int) -> int | None:
    stated, tokens = view.value(Signal.HOST_CAPACITY_BYTES), view.value(Signal.HOST_CAPACITY_TOKENS)
    if stated is not None:
        return int(stated)
    chunks = view.value(Signal.PLUGIN_CAPACITY_CHUNKS)
    if tokens is None and chunks is not None and chunk_tokens:
        tokens = chunks * chunk_tokens
    return None if tokens is None else int(tokens * per_token)
