"""What a search must know of an engine: model, KV bytes per token, budgets. From whoever says it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autotune.core.policy import Budgets, PolicyDocument
from autotune.core.signals import Signal
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import EngineSemantics
from autotune.daemon.target_view import TargetView

_VLLM = "vllm"
_UNKNOWN_DTYPE = "unknown"


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
    """

    engine: str
    model: str
    kv_dtype: str
    kv_bytes_per_token: int
    budgets: Budgets

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
    return EngineProfile(view.snapshot.engine.name, model, dtype, per_token, budgets)


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
