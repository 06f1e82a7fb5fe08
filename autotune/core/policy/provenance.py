"""Where a policy came from: enough to run it again.

There are no wall clock times in it, so that the same run always writes the same bytes.
"""

from __future__ import annotations

from pydantic import Field

from autotune.core.policy.quantities import MAX_RATIO, Count, Frac, Name, Seconds, Text
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode, Timing
from autotune.core.validation import Strict


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

    timing: Timing = Field(
        description="When blocks become idle: instant (at arrival) or service (when a request ends)."
    )
    full_blocks: bool = Field(description="Whether partial blocks at the end of a prompt are left out.")
    engine: EngineSemantics = Field(
        default=EngineSemantics.CANONICAL,
        description="By whose rules the host tier was simulated: canonical, or those of vLLM in the version named.",
    )
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
    prefetch_depth: Count = Field(default=1, description="Waiting requests ahead whose loads may start.")
    servers: Count | None = Field(
        default=None, description="Prefill servers of the queueing model; null = waiting times were not modelled."
    )
    time_scale: float | None = Field(
        default=None, gt=0.0, le=MAX_RATIO, description="Factor on the times between arrivals in that model."
    )
    baseline_device_blocks: Count | None = Field(
        default=None,
        description="Capacity of the device under the baseline, where the search moved the border between device and "
        "host; null = the same as under the policy.",
    )
    baseline_store_mode: StoreMode | None = Field(
        default=None,
        description="Store mode under the baseline, where it is another than the policy's; null = the same.",
    )
    device_policy: Name | None = Field(
        default=None,
        description="Policy that the device was simulated with, where that is another than section 'tiers' names; "
        "null = the one named there.",
    )


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
