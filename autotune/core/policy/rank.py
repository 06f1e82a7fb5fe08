"""Knobs of the rank rule."""

from __future__ import annotations

from pydantic import Field

from autotune.core.decide.rank import NS_PER_S, rank_weight_s
from autotune.core.policy.quantities import MAX_RATIO, MAX_SECONDS
from autotune.core.types import Tier
from autotune.core.validation import Strict


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
        default=0.0,
        ge=0.0,
        le=100.0,
        description="Weight of log2(seconds at stake) beside log2(frequency); 0 = the rule looks at frequency only.",
    )
    ghost_ratio: float = Field(
        default=1.0,
        ge=0.0,
        le=1000.0,
        description="Evicted blocks whose statistics are remembered, per resident.",
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
