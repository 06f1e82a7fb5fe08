"""Every setting of the sidecar, with its default, its range and its meaning: the section ``sidecar`` of the settings.

Sizes are in MiB and times in seconds, as people write them. Secrets are not settings: a file or the environment has
them, and no setting, status page or support bundle shows them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from autotune.core.validation import Strict

Seconds = Annotated[float, Field(gt=0.0, le=31_536_000.0)]
Frac = Annotated[float, Field(gt=0.0, lt=1.0)]


class CollectSettings(Strict):
    """How the figures of an engine are collected."""

    interval_s: Seconds = Field(default=5.0, description="Seconds between two rounds of collecting.")
    timeout_s: Seconds = Field(
        default=2.0, description="Seconds that one source may take before its round is given up."
    )
    stale_after_s: Seconds = Field(
        default=30.0,
        description="Age in seconds from which figures count as old: /readyz then fails and a trial is rolled back.",
    )
    max_page_mib: int = Field(
        default=16, ge=1, le=1024, description="Largest page of metrics in MiB that is read; a larger one is an error."
    )


class RecordingSettings(Strict):
    """What is kept of the requests to tune on: hashes and figures, no tokens, no text."""

    max_mib: int = Field(
        default=1024, ge=8, le=1_048_576, description="MiB on disk; the oldest segments go when more would be kept."
    )
    max_age_s: Seconds = Field(default=604_800.0, description="Seconds after which a segment goes, full or not.")
    segment_s: Seconds = Field(default=300.0, description="Seconds of requests after which a segment is closed.")


class RetuneSettings(Strict):
    """When the policy is tuned again, and what the search, a process of its own, may take."""

    interval_s: Seconds = Field(default=3600.0, description="Seconds between two searches where nothing else asks.")
    cooldown_s: Seconds = Field(
        default=900.0, description="Seconds after a change or a search in which no other search begins."
    )
    drift_confidence: Frac = Field(
        default=0.99, description="How sure a change of the load must be to start a search before its time."
    )
    min_requests: int = Field(
        default=1000, ge=1, le=10_000_000, description="Recorded requests without which nothing is tuned."
    )
    min_gain_frac: float = Field(
        default=0.02,
        ge=0.0,
        lt=1.0,
        description="Lower bound of the expected gain below which a new policy is not worth a change.",
    )
    trials: int = Field(default=60, ge=1, le=1_000_000, description="Settings that one search tries.")
    learned: bool = Field(
        default=True,
        description="Whether a search also learns from the recording which blocks come back, and takes that rule where "
        "it does better than any setting. Only vLLM with the plug-in can obey it.",
    )
    timeout_s: Seconds = Field(default=900.0, description="Seconds after which a search is stopped.")
    cpu_cores: float = Field(
        default=1.0, gt=0.0, le=64.0, description="Cores that the search may use; it runs at the lowest priority."
    )
    max_mib: int = Field(default=4096, ge=256, le=1_048_576, description="MiB of memory that the search may use.")


class GuardSettings(Strict):
    """When a policy on trial is kept, and when it is taken back."""

    canary_s: Seconds = Field(default=600.0, description="Seconds that a policy is on trial.")
    lease_s: Seconds = Field(
        default=60.0,
        description="Seconds after which the engine itself drops a policy on trial that the sidecar no longer renews.",
    )
    confidence: Frac = Field(default=0.95, description="How sure a regression must be before the policy is taken back.")
    max_ttft_loss_frac: float = Field(
        default=0.10, ge=0.0, le=10.0, description="Rise of the p95 of the time to the first token that is put up with."
    )
    max_throughput_loss_frac: float = Field(
        default=0.05, ge=0.0, lt=1.0, description="Fall of tokens per second that is put up with."
    )
    max_preemption_rise_frac: float = Field(
        default=0.20, ge=0.0, le=100.0, description="Rise of preemptions per request that is put up with."
    )
    max_error_frac: float = Field(
        default=0.01, ge=0.0, le=1.0, description="Share of failed requests, above what it was, that is put up with."
    )


class ShadowSettings(Strict):
    """Policies that run on a sample of the blocks beside the live one, without touching anything."""

    sample_frac: float = Field(default=0.05, gt=0.0, le=1.0, description="Share of the blocks, chosen by their hash.")
    max_entries: int = Field(
        default=50_000, ge=100, le=10_000_000, description="Blocks that each of them may remember."
    )


class HttpSettings(Strict):
    """The sidecar's own HTTP server."""

    enabled: bool = Field(default=True, description="Whether there is one.")
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=255,
        description="Address that it listens on. Any other than loopback needs allow_remote and a token.",
    )
    port: int = Field(default=8765, ge=0, le=65_535, description="Port that it listens on; 0 = any free one.")
    allow_remote: bool = Field(
        default=False, description="Whether it may listen beyond loopback; every request then needs the token."
    )
    token_file: str | None = Field(
        default=None,
        description="File with the token, which POST needs; null: the variable KV_AUTOTUNE_HTTP_TOKEN has it, and "
        "without either every POST is refused.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Names beside those of loopback under which browsers may reach it; others are refused, so that a "
        "foreign page cannot read it through a name of its own.",
    )
    max_body_kib: int = Field(default=16, ge=1, le=1024, description="Largest body of a request in KiB.")
    trend_points: int = Field(
        default=720, ge=2, le=10_000, description="Points of the past that the page shows, one per round of collecting."
    )


class SidecarSettings(Strict):
    """The sidecar beside a running engine: 'kv-autotune attach'."""

    mode: Literal["observe", "recommend", "canary", "auto", "freeze"] = Field(
        default="observe",
        description="How much it may do: observe (change nothing anywhere), recommend (write a policy beside the live "
        "one), canary (try one, keep it or roll it back), auto (a canary each time) or freeze (what is live stays).",
    )
    history_entries: int = Field(
        default=100, ge=1, le=10_000, description="Changes that the status shows; the audit log has all of them."
    )
    collect: CollectSettings = Field(default=CollectSettings(), description="Collecting figures.")
    recording: RecordingSettings = Field(default=RecordingSettings(), description="Recording requests.")
    retune: RetuneSettings = Field(default=RetuneSettings(), description="Tuning again.")
    guard: GuardSettings = Field(default=GuardSettings(), description="Guarding a trial.")
    shadow: ShadowSettings = Field(default=ShadowSettings(), description="Running policies in the shadow.")
    http: HttpSettings = Field(default=HttpSettings(), description="Serving status, metrics and the page.")
