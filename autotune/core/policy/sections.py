"""Sections of a policy document that an engine acts on: budgets, tiers, knobs, costs, prices, streaming, hints."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from autotune.core.costs import CostProfile
from autotune.core.decide.rank import NS_PER_S, rank_weight_s
from autotune.core.types import Admission, StoreMode, Tier
from autotune.core.validation import BrokenRuleError, Strict

MAX_BYTES = 2**60
MAX_TOKENS = 2**31
MAX_SECONDS = 1e9  # about 32 years; a rank in nanoseconds stays far inside int64
MAX_RATIO = 1e6

Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Seconds = Annotated[float, Field(ge=0.0, le=MAX_SECONDS)]
Frac = Annotated[float, Field(ge=0.0, le=1.0)]
BytesPerSecond = Annotated[float, Field(gt=0.0, le=1e18)]
Text = Annotated[str, Field(max_length=4096)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Budgets(Strict):
    """Bytes that the KV cache may take on each tier."""

    device_bytes: int = Field(gt=0, le=MAX_BYTES, description="KV cache on the device, in bytes.")
    host_bytes: Bytes = Field(default=0, description="KV cache in host memory, in bytes; 0 = there is no such tier.")
    disk_bytes: Bytes = Field(default=0, description="KV cache on disk, in bytes; 0 = there is no such tier.")

    def of(self, tier: Tier) -> int:
        """Bytes of one tier."""
        return (self.device_bytes, self.host_bytes, self.disk_bytes)[tier]


class DeviceTier(Strict):
    """How the device chooses its residents."""

    policy: Literal["lru", "rank"] = Field(
        default="lru", description="Who leaves when the tier is full: lru, or the smallest rank (section 'rank')."
    )
    admission: Admission = Field(
        default=Admission.ALL,
        description="Which missing blocks come in: all; marginal (only what outranks the resident that would have to "
        "go); two_hit (only blocks asked for before).",
    )

    @model_validator(mode="after")
    def _marginal_needs_ranks(self) -> DeviceTier:
        if self.admission is Admission.MARGINAL and self.policy != "rank":
            raise BrokenRuleError(
                "admission 'marginal' compares ranks, so it needs policy 'rank'",
                got=f"policy {self.policy!r}",
                remedy="use admission 'all' or 'two_hit'",
            )
        return self


class StoredTier(DeviceTier):
    """How a tier below the device chooses its residents, and when it receives copies."""

    store_mode: StoreMode = Field(
        default=StoreMode.EAGER,
        description="When copies come from the tier above: eager (when a request ends; both keep one), lazy (when the "
        "tier above evicts), exclusive (like lazy, and a loaded block leaves this tier).",
    )
    chunk_tokens: Tokens = Field(
        default=0, description="Tokens that are stored together; 0 = every block of the engine by itself."
    )


class Tiers(Strict):
    """One rule per tier; ``null`` where the budget has no such tier."""

    device: DeviceTier = Field(default=DeviceTier(), description="The device's own cache of idle blocks.")
    host: StoredTier | None = Field(default=None, description="Host memory; null = no such tier.")
    disk: StoredTier | None = Field(default=None, description="Disk; null = no such tier.")

    def of(self, tier: Tier) -> DeviceTier | None:
        """The rule of one tier."""
        return (self.device, self.host, self.disk)[tier]


class RankKnobs(Strict):
    """Settings of the rank rule on one tier: evict the smallest ``last access + w * f``.

    All are in tokens, seconds and turnovers, never in blocks, so they hold for every block size.
    """

    lambda_recency: float = Field(
        gt=0.0,
        le=1.0,
        description="λ: weight of recency against value, above 0 and up to 1. 1 is exactly LRU; smaller values let "
        "frequent and costly blocks stay longer.",
    )
    tau_turnovers: float = Field(
        gt=0.0,
        le=MAX_RATIO,
        description="Time scale of the rule, in turnovers: w = tau_turnovers * turnover_s * (1 - λ) / λ seconds of "
        "recency per unit of value.",
    )
    turnover_s: float = Field(
        gt=0.0,
        le=MAX_SECONDS,
        description="One turnover in seconds: the time in which this tier replaced its whole content when it was "
        "measured (capacity / insertion rate); frozen with this policy.",
    )
    half_life_turnovers: float = Field(
        default=0.0,
        ge=0.0,
        le=MAX_RATIO,
        description="Time in which a past access loses half its weight, in turnovers; 0 = accesses never fade.",
    )
    cost_weight: float = Field(
        default=1.0,
        ge=0.0,
        le=100.0,
        description="Weight of log2(seconds at stake) beside log2(frequency); 0 = the rule looks at frequency only.",
    )
    ghost_ratio: float = Field(
        default=1.0,
        ge=0.0,
        le=64.0,
        description="Evicted blocks whose statistics are remembered, per resident.",
    )
    min_load_tokens: Tokens = Field(
        default=0,
        description="Shortest run that is loaded from this tier, in tokens; shorter ones are recomputed. 0 = as the "
        "costs decide.",
    )

    @property
    def tau_s(self) -> float:
        """Time scale in seconds."""
        return self.tau_turnovers * self.turnover_s

    @property
    def half_life_s(self) -> float:
        """Half-life of an access in seconds; 0 means that nothing fades."""
        return self.half_life_turnovers * self.turnover_s

    @property
    def weight_ns(self) -> float:
        """``w``: nanoseconds of recency that one unit of value is worth."""
        return rank_weight_s(self.lambda_recency, self.tau_s) * NS_PER_S


class RankSection(Strict):
    """Knobs of every tier whose policy is ``rank``; ``null`` for the others."""

    device: RankKnobs | None = Field(default=None, description="Knobs on the device; null = the device is not ranked.")
    host: RankKnobs | None = Field(default=None, description="Knobs on the host; null = the host is not ranked.")
    disk: RankKnobs | None = Field(default=None, description="Knobs on the disk; null = the disk is not ranked.")

    def of(self, tier: Tier) -> RankKnobs | None:
        """The knobs of one tier."""
        return (self.device, self.host, self.disk)[tier]


class Costs(Strict):
    """Coefficients that every decision is computed from."""

    prefill_linear_s_per_token: float = Field(
        gt=0.0, le=MAX_SECONDS, description="Seconds of prefill per prompt token, attention aside."
    )
    prefill_quadratic_s_per_token_pair: float = Field(
        ge=0.0,
        le=MAX_SECONDS,
        description="Seconds of attention per pair of tokens: n tokens take linear * n + quadratic * n * (n + 1) / 2.",
    )
    kv_bytes_per_token: int = Field(gt=0, le=MAX_BYTES, description="KV of one token over all layers, in bytes.")
    load_bytes_per_s: BytesPerSecond = Field(description="Bandwidth from host to device, in bytes per second.")
    load_latency_s: Seconds = Field(description="Fixed seconds per load.")
    store_bytes_per_s: BytesPerSecond = Field(description="Bandwidth from device to host, in bytes per second.")
    store_latency_s: Seconds = Field(description="Fixed seconds per store.")
    disk_bytes_per_s: BytesPerSecond = Field(description="Bandwidth from disk to host, in bytes per second.")
    disk_latency_s: Seconds = Field(description="Fixed seconds per read from disk.")
    store_exposed_frac: Frac = Field(description="Share of store seconds that delays requests.")
    source: Text = Field(description="Where these figures come from.")

    @classmethod
    def of(cls, profile: CostProfile) -> Costs:
        """The section for a cost profile."""
        return cls(
            prefill_linear_s_per_token=profile.prefill_linear_s,
            prefill_quadratic_s_per_token_pair=profile.prefill_quadratic_s,
            kv_bytes_per_token=profile.kv_bytes_per_token,
            load_bytes_per_s=profile.load_bytes_per_s,
            load_latency_s=profile.load_latency_s,
            store_bytes_per_s=profile.store_bytes_per_s,
            store_latency_s=profile.store_latency_s,
            disk_bytes_per_s=profile.disk_bytes_per_s,
            disk_latency_s=profile.disk_latency_s,
            store_exposed_frac=profile.store_exposed_frac,
            source=profile.source,
        )

    def profile(self) -> CostProfile:
        """The cost profile that this section holds."""
        return CostProfile(
            prefill_linear_s=self.prefill_linear_s_per_token,
            prefill_quadratic_s=self.prefill_quadratic_s_per_token_pair,
            kv_bytes_per_token=self.kv_bytes_per_token,
            load_bytes_per_s=self.load_bytes_per_s,
            load_latency_s=self.load_latency_s,
            store_bytes_per_s=self.store_bytes_per_s,
            store_latency_s=self.store_latency_s,
            disk_bytes_per_s=self.disk_bytes_per_s,
            disk_latency_s=self.disk_latency_s,
            store_exposed_frac=self.store_exposed_frac,
            source=self.source,
        )


class ReuseStep(Strict):
    """Probability of reuse from one access count up to the next step."""

    frequency_min: float = Field(ge=0.0, le=1e9, description="Smallest number of accesses that this step stands for.")
    probability: Frac = Field(description="Share of such blocks that were asked for again within one turnover.")
    n_samples: int = Field(ge=0, le=MAX_BYTES, description="Blocks that this share was counted over.")


class Prices(Strict):
    """What a byte is worth on each tier, and how often blocks come back."""

    device_s_per_byte: Seconds | None = Field(
        default=None,
        description="Seconds that a byte on the device is worth: the value density of the block that would have to "
        "go. null = not measured.",
    )
    host_s_per_byte: Seconds | None = Field(
        default=None, description="Seconds that a byte on the host is worth. null = not measured."
    )
    reuse: tuple[ReuseStep, ...] = Field(
        default=(),
        max_length=256,
        description="Probability of reuse within one turnover by number of accesses, smallest first; 'explain' uses "
        "the last step that is not above the block's count.",
    )

    @model_validator(mode="after")
    def _steps_ascend(self) -> Prices:
        starts = [step.frequency_min for step in self.reuse]
        if any(later <= earlier for earlier, later in zip(starts, starts[1:], strict=False)):
            raise BrokenRuleError("prices.reuse must have ascending frequency_min, each once", got=starts)
        return self

    def reuse_probability(self, frequency: float) -> float | None:
        """P(reuse within one turnover) at an access count; ``None`` where no step covers it."""
        covering = [step.probability for step in self.reuse if step.frequency_min <= frequency]
        return covering[-1] if covering else None


class Streaming(Strict):
    """How the KV of running requests may be streamed."""

    resident_frac: Frac = Field(
        description="p: share of the layers whose KV stays on the device; 1 = nothing is streamed."
    )
    prefetch_depth: int = Field(
        ge=0, le=4096, description="d: streamed layers that are fetched ahead of the one computed; 0 = none."
    )


class Hints(Strict):
    """Which hints of clients the engine may use."""

    use_session: bool = Field(default=False, description="Whether session ids and ends given by clients are used.")
    use_priority: bool = Field(default=False, description="Whether priorities given by clients are used.")
