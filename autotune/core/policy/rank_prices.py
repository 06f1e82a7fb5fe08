"""Prices of room under a learned rule: where the block stands that would have to go."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from autotune.core.policy.quantities import MAX_SECONDS, Seconds, Text
from autotune.core.types import RankForm, Tier
from autotune.core.validation import BrokenRuleError, Strict

ROOM_S = -MAX_SECONDS  # instead of a key: so early that every block stands above it
_Key = Annotated[float, Field(ge=ROOM_S, le=MAX_SECONDS)]


class RankPrices(Strict):
    """What room is worth on each tier, measured where the rule was in force; decides nothing, explains.

    Under form hazard a price is a rank, under form fixed_key it is a key.
    """

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
    device_key_s: _Key | None = Field(
        default=None,
        description="Key of the next to leave the device, in seconds from the moment at which it was looked up. KEEP "
        "means to have at least such a key now. -1e9 = there was room for every block; absent as above.",
    )
    host_key_s: _Key | None = Field(
        default=None,
        description="The same on the host: OFFLOAD means to have a key below the device's and at least this one, EVICT "
        "to be below both. Copies that leave before all others count as room.",
    )
    moments: int = Field(
        ge=1,
        le=2**31,
        description="Moments at which the next to leave was looked up; a price is the median of what was found.",
    )
    measured_on: Text = Field(description="Which requests these prices were measured on.")

    @model_validator(mode="after")
    def _prices_something(self) -> RankPrices:
        given = [prices for prices in self._by_form().values() if prices != (None, None)]
        if not given:
            raise BrokenRuleError(
                "class_hazard.prices has a price of at least one tier", got="none", remedy="leave 'prices' away"
            )
        if len(given) > 1:
            raise BrokenRuleError("class_hazard.prices are ranks or keys", got="both")
        return self

    @property
    def form(self) -> RankForm:
        """Which form of the rule they are for."""
        return RankForm.HAZARD if self._by_form()[RankForm.FIXED_KEY] == (None, None) else RankForm.FIXED_KEY

    def of(self, tier: Tier) -> float | None:
        """Price on a tier, in seconds saved per block-second or as a key in seconds; ``None`` = it is not governed."""
        device, host = self._by_form()[self.form]
        return {Tier.DEVICE: device, Tier.HOST: host}.get(tier)

    def _by_form(self) -> dict[RankForm, tuple[float | None, float | None]]:
        return {
            RankForm.HAZARD: (self.device_s_per_block_s, self.host_s_per_block_s),
            RankForm.FIXED_KEY: (self.device_key_s, self.host_key_s),
        }
