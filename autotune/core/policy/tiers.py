"""Budgets, and which rule governs each tier."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from autotune.core.policy.quantities import MAX_BYTES, Bytes, Tokens
from autotune.core.types import Admission, StoreMode, Tier
from autotune.core.validation import BrokenRuleError, Strict


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

    policy: Literal["lru", "rank", "class_hazard"] = Field(
        default="lru",
        description="Who leaves when the tier is full: lru, the smallest rank (section 'rank'), or the block that is "
        "expected to save least (section 'class_hazard').",
    )
    admission: Admission = Field(
        default=Admission.ALL,
        description="Which missing blocks come in: all; marginal (only what outranks the resident that would have to "
        "go); two_hit (only blocks asked for before).",
    )

    @model_validator(mode="after")
    def _marginal_needs_ranks(self) -> DeviceTier:
        if self.admission is Admission.MARGINAL and self.policy == "lru":
            raise BrokenRuleError(
                "admission 'marginal' compares ranks, so it needs policy 'rank' or 'class_hazard'",
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
    min_load_tokens: Tokens = Field(
        default=0,
        description="Shortest run that is loaded from this tier, in tokens; shorter ones are recomputed. 0 = as the "
        "costs decide.",
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
