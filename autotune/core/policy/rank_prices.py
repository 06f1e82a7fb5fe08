"""Prices of room under a learned rule: what the block saves that would have to go."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from autotune.core.policy.quantities import Seconds, Text
from autotune.core.types import Tier
from autotune.core.validation import BrokenRuleError, Strict


class RankPrices(Strict):
    """What room is worth on each tier, measured where the rule was in force; decides nothing, explains."""

    leave_out_none: ClassVar[bool] = True

    device_s_per_block_s: Seconds | None = Field(
        default=None,
        description="Rank of the next to leave the device: expected seconds saved per second of keeping one block of "
        "fingerprint.trace_block_tokens tokens. KEEP means to rank at least so high. 0 = there was room for every "
        "block; absent = the rule does not govern the device.",
    )
    host_s_per_block_s: Seconds | None = Field(
        default=None,
        description="The same on the host: OFFLOAD means to rank below the device's price and at least so high here, "
        "EVICT to rank below both.",
    )
    moments: int = Field(
        ge=1,
        le=2**31,
        description="Moments at which the next to leave was looked up; a price is the median of its ranks.",
    )
    measured_on: Text = Field(description="Which requests these prices were measured on.")

    @model_validator(mode="after")
    def _prices_something(self) -> RankPrices:
        if self.device_s_per_block_s is None and self.host_s_per_block_s is None:
            raise BrokenRuleError(
                "class_hazard.prices has a price of at least one tier", got="none", remedy="leave 'prices' away"
            )
        return self

    def of(self, tier: Tier) -> float | None:
        """Price on a tier, in seconds saved per block-second; ``None`` = the rule does not govern it."""
        return {Tier.DEVICE: self.device_s_per_block_s, Tier.HOST: self.host_s_per_block_s}.get(tier)
