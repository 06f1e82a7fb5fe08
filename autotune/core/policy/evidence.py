"""What a policy promises, and which engine it is meant for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from autotune.core.policy.quantities import MAX_BYTES, MAX_RATIO, MAX_TOKENS, Name, Text
from autotune.core.validation import BrokenRuleError, Strict

# An engine and the versions it may have, such as ``vllm>=0.24,<0.34`` or ``sglang``.
EngineRange = Annotated[
    str,
    Field(
        max_length=200,
        pattern=r"^[a-z][a-z0-9._-]*((==|!=|>=|<=|>|<)[0-9][0-9A-Za-z.+]*(,(==|!=|>=|<=|>|<)[0-9][0-9A-Za-z.+]*)*)?$",
    ),
]
Cost = Annotated[float, Field(ge=0.0, le=1e15)]


class GainFrac(Strict):
    """A share of the baseline's cost, with bounds."""

    value: float = Field(ge=-MAX_RATIO, le=1.0, description="Estimate; negative where the policy costs more.")
    low: float = Field(ge=-MAX_RATIO, le=1.0, description="Lower bound.")
    high: float = Field(ge=-MAX_RATIO, le=1.0, description="Upper bound.")

    @model_validator(mode="after")
    def _ordered(self) -> GainFrac:
        if not self.low <= self.high:
            raise BrokenRuleError(
                "the lower bound of a gain must not be above the upper one", got=f"{self.low} > {self.high}"
            )
        return self


class Expectation(Strict):
    """What the policy promises against the baseline, on requests that it was not tuned on."""

    baseline: Literal["lru"] = Field(default="lru", description="What it is compared with.")
    cost_baseline_s: Cost = Field(description="Seconds of recompute, load and exposed store under the baseline.")
    cost_policy_s: Cost = Field(description="The same under this policy.")
    gain_frac: GainFrac = Field(description="(baseline cost - policy cost) / baseline cost, with its bounds.")
    confidence: float = Field(gt=0.0, lt=1.0, description="Probability that the bounds cover the gain.")
    net_seconds_saved_baseline: float = Field(
        ge=-1e15, le=1e15, description="Recompute avoided - load - exposed store under the baseline, in seconds."
    )
    net_seconds_saved_policy: float = Field(ge=-1e15, le=1e15, description="The same under this policy.")
    gap_closed_frac: float | None = Field(
        default=None,
        ge=-MAX_RATIO,
        le=MAX_RATIO,
        description="Share of the gap between the baseline and the clairvoyant policy that is closed; null = not "
        "measured, or no gap.",
    )
    measured_on: Text = Field(description="Which requests these figures were measured on.")


class Fingerprint(Strict):
    """What an engine must be for this policy to apply; anything else falls back to its own LRU."""

    model: Name = Field(description="Model that the policy was tuned for.")
    kv_dtype: Name = Field(description="Element type of its KV cache.")
    kv_bytes_per_token: int = Field(
        gt=0, le=MAX_BYTES, description="KV of one token over all layers and ranks, in bytes; must equal the engine's."
    )
    trace_block_tokens: int = Field(
        gt=0, le=MAX_TOKENS, description="Tokens per block of the trace; for the record, the engine's may differ."
    )
    engines: tuple[EngineRange, ...] = Field(
        default=(), max_length=32, description="Engines and versions it is meant for, as 'vllm>=0.24,<0.34'; [] = any."
    )
    adapter_rule: Literal["any", "base_only"] = Field(
        default="any",
        description="Which blocks it governs: any (blocks of each adapter, never mixed) or base_only (no adapter).",
    )
