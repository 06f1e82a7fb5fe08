"""Budgets, and which rule governs each tier."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from autotune.core.policy.quantities import MAX_BYTES, Bytes, BytesPerSecond, Seconds, Tokens
from autotune.core.types import Admission, StoreMode, Tier
from autotune.core.validation import BrokenRuleError, Strict


class WriteBudget(Strict):
    """How much may be stored to a tier as time passes."""

    bytes_per_s: BytesPerSecond = Field(description="Bytes per second that may be stored, on average.")
    burst_s: Seconds = Field(description="Seconds of that budget that may be saved up, to be stored at once.")


class Budgets(Strict):
    """Bytes that the KV cache may take on each tier, and that may be stored to the host."""

    leave_out_none: ClassVar[bool] = True

    device_bytes: int = Field(gt=0, le=MAX_BYTES, description="KV cache on the device, in bytes.")
    host_bytes: Bytes = Field(default=0, description="KV cache in host memory, in bytes; 0 = there is no such tier.")
    disk_bytes: Bytes = Field(default=0, description="KV cache on disk, in bytes; 0 = there is no such tier.")
    host_write: WriteBudget | None = Field(
        default=None,
        description="What may be stored to the host; absent = as much as comes. The scarcer it gets, the more a block "
        "must outrank the one that would leave; without any left, nothing is stored. Needs tiers.host.policy "
        "'class_hazard'.",
    )

    @model_serializer(mode="wrap")
    def _without_absent(self, values_of: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Documents without a write budget keep the hash that they had before there was one."""
        values: dict[str, object] = values_of(self)
        return (
            values if self.host_write is not None else {name: values[name] for name in values if name != "host_write"}
        )

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
