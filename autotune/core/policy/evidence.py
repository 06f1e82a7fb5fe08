"""Sections of a policy document that say why to believe it and where it came from; an engine does not act on them.

There are no wall clock times in them, so that the same run always writes the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from autotune.core.policy.sections import MAX_BYTES, MAX_RATIO, MAX_TOKENS, Frac, Name, Seconds, Text, Tokens
from autotune.core.trace import Trace
from autotune.core.types import Timing
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
Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]


class GainFrac(Strict):
    """A share of the baseline's cost, with bounds."""

    value: float = Field(ge=-MAX_RATIO, le=1.0, description="Estimate; negative where the policy costs more.")
    low: float = Field(ge=-MAX_RATIO, le=1.0, description="Lower bound.")
    high: float = Field(ge=-MAX_RATIO, le=1.0, description="Upper bound.")

    @model_validator(mode="after")
    def _ordered(self) -> GainFrac:
        if not self.low <= self.high:
            raise BrokenRuleError("the lower bound of a gain must not be above the upper one", got=f"{self.low} > {self.high}")
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


class TraceOption(Strict):
    """One option of the trace reader that changed what was read."""

    name: Name = Field(description="Option of the reader.")
    value: Text = Field(description="Its value as text.")


class SkippedRows(Strict):
    """Malformed rows that were left out on request."""

    fault: Name = Field(description="Kind of fault.")
    rows: Count = Field(description="Rows left out for it.")


class TraceSource(Strict):
    """The requests that the policy was tuned and judged on."""

    format: Name = Field(description="Name of the trace reader.")
    paths: tuple[Text, ...] = Field(max_length=4096, description="File names, without folders, in the order read.")
    sha256: str = Field(max_length=64, description="Hash over the decompressed bytes of the files in that order.")
    options: tuple[TraceOption, ...] = Field(default=(), description="Reader options that changed the content.")
    skipped_rows: tuple[SkippedRows, ...] = Field(default=(), description="Malformed rows left out on request.")
    n_requests: Count = Field(description="Requests read.")

    @classmethod
    def of(cls, trace: Trace) -> TraceSource:
        """The section for a whole trace."""
        source = trace.provenance
        return cls(
            format=source.trace_format,
            paths=source.paths,
            sha256=source.sha256,
            options=tuple(TraceOption(name=name, value=value) for name, value in source.options),
            skipped_rows=tuple(SkippedRows(fault=fault, rows=rows) for fault, rows in source.skipped_rows),
            n_requests=trace.n_requests,
        )


class Package(Strict):
    """One package that took part in the result."""

    name: Name = Field(description="Package, or 'python'.")
    version: Name = Field(description="Its version.")


class SimulationFacts(Strict):
    """Settings of the simulation, as ``verify`` needs them to repeat it."""

    timing: Timing = Field(description="When blocks become idle: instant (at arrival) or service (when a request ends).")
    full_blocks: bool = Field(description="Whether partial blocks at the end of a prompt are left out.")
    device_blocks: Count = Field(description="Capacity of the device, in blocks of the trace.")
    host_blocks: Count = Field(default=0, description="Capacity of the host, in blocks of the trace; 0 = no such tier.")
    disk_blocks: Count = Field(default=0, description="Capacity of the disk, in blocks of the trace; 0 = no such tier.")
    measure_from_frac: Frac = Field(
        description="Share of the trace's time before which requests only warm the caches up; what follows was judged."
    )
    itl_s: Seconds = Field(description="Seconds per output token, for service timing.")
    check_break_even: bool = Field(
        default=True, description="Whether a run whose load would take longer than its recompute is recomputed."
    )
    prefetch_depth: Tokens = Field(default=1, description="Waiting requests ahead whose loads may start.")


class Provenance(Strict):
    """Where the policy came from: enough to run it again."""

    tool_version: Name = Field(description="Version of kv-autotune that wrote this.")
    trace: TraceSource = Field(description="What it was tuned and judged on.")
    packages: tuple[Package, ...] = Field(default=(), max_length=64, description="Versions that took part in it.")
    seed: int = Field(ge=0, le=2**63 - 1, description="Seed of the search.")
    sampler: Name = Field(description="Sampler of the search.")
    trials: Count = Field(description="Settings that were tried.")
    train_frac: Frac = Field(description="Share of the trace's time that was tuned on; the rest was judged.")
    simulation: SimulationFacts = Field(description="Settings of the simulation.")
