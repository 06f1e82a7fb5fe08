"""Costs, prices and reuse: what a block is worth and what it takes."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field, model_validator

from autotune.core.costs import CostProfile
from autotune.core.policy.quantities import MAX_BYTES, MAX_SECONDS, BytesPerSecond, Frac, Seconds, Text
from autotune.core.validation import BrokenRuleError, Strict


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
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise BrokenRuleError("prices.reuse must have ascending frequency_min, each once", got=starts)
        return self

    def reuse_probability(self, frequency: float) -> float | None:
        """P(reuse within one turnover) at an access count; ``None`` where no step covers it."""
        covering = [step.probability for step in self.reuse if step.frequency_min <= frequency]
        return covering[-1] if covering else None
