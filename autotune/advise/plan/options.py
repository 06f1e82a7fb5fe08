"""What could still be switched on: bytes kept and bytes read under each, beside the plan as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.advise.plan.request import PlanRequest
from autotune.advise.techniques import rule_of
from autotune.geometry.budgets import fixed_budget
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.kinds import LayerKind, Technique
from autotune.geometry.precision import precision
from autotune.geometry.sparse_reads import sparse_reads

_FORMATS = ("fp8", "int4_g32", "kivi2_g32")
_BUDGET_TOKENS = 2048
_SPARSE_BUDGET_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Option:
    """One technique that is not in use.

    Attributes:
        technique: Which.
        setting: With what.
        kept_frac: Bytes kept, relative to the plan.
        read_frac: Bytes that a step reads, relative to the plan.
        exact: Whether the output stays what it is.
        risk: What may go wrong.
    """

    technique: Technique
    setting: str
    kept_frac: float
    read_frac: float
    exact: bool
    risk: str


def options(geometry: ModelGeometry, request: PlanRequest) -> tuple[Option, ...]:
    """Techniques of the engine that the plan does not use yet, those that keep the output first."""
    found = [*_offload(request), *_formats(geometry, request), *_sparse(geometry, request), *_budget(geometry, request)]
    return tuple(found)


def _offload(request: PlanRequest) -> list[Option]:
    if request.resident_frac != "1":
        return []
    return [_option(Technique.OFFLOAD, "p 0.5, the rest streamed or paused on the host", 0.5, 1.0)]


def _formats(geometry: ModelGeometry, request: PlanRequest) -> list[Option]:
    plain = geometry.kv_bytes(request.context_tokens)
    now = precision(geometry.kv_dtype).bits_per_value if geometry.kv_dtype != "fp8_ds_mla" else 0
    smaller = [name for name in _FORMATS if precision(name).bits_per_value < now]
    shares = {name: geometry.in_precision(name).kv_bytes(request.context_tokens) / plain for name in smaller}
    return [_option(Technique.QUANTISATION, name, share, share) for name, share in shares.items()]


def _sparse(geometry: ModelGeometry, request: PlanRequest) -> list[Option]:
    if request.context_tokens <= _SPARSE_BUDGET_TOKENS or not _has_full(geometry):
        return []
    share = sparse_reads(request.context_tokens, _SPARSE_BUDGET_TOKENS, request.block_tokens)
    full = _full_share(geometry, request.context_tokens)
    kept, read = 1 + (float(share.stored_share) - 1) * full, 1 - (1 - float(share.read_share)) * full
    return [_option(Technique.SPARSE_READS, f"budget of {_SPARSE_BUDGET_TOKENS:,} tokens", kept, read)]


def _budget(geometry: ModelGeometry, request: PlanRequest) -> list[Option]:
    if request.context_tokens <= _BUDGET_TOKENS or not _has_full(geometry):
        return []
    kept_tokens = fixed_budget(request.context_tokens, _BUDGET_TOKENS)
    full = _full_share(geometry, request.context_tokens)
    kept = 1 - full + full * kept_tokens / request.context_tokens
    return [_option(Technique.EVICTION_BUDGET, f"{_BUDGET_TOKENS:,} tokens kept", kept, kept)]


def _option(technique: Technique, setting: str, kept: float, read: float) -> Option:
    rule = rule_of(technique)
    return Option(technique, setting, kept, read, rule.exact, rule.risk)


def _has_full(geometry: ModelGeometry) -> bool:
    return any(layer.kind is LayerKind.FULL for layer in geometry.layers)


def _full_share(geometry: ModelGeometry, context_tokens: int) -> float:
    """Share of the bytes that lie in layers of full attention."""
    full = replace(geometry, layers=tuple(layer for layer in geometry.layers if layer.kind is LayerKind.FULL))
    return full.kv_bytes(context_tokens) / geometry.kv_bytes(context_tokens)
