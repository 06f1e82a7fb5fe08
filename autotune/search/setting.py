"""One point of the search space, in units that mean the same at every capacity and block size."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.eviction import PolicySpec
from autotune.core.policy.specs import ADMISSION_CODES
from autotune.core.types import Admission


@dataclass(frozen=True, slots=True)
class Setting:
    """Values of every knob that the search may turn.

    Attributes:
        lambda_recency: Weight of recency against value, in (0, 1]; 1 is LRU.
        tau_turnovers: Time scale of the trade, in turnovers of the ranked tier.
        half_life_turnovers: Half-life of the frequency; 0 means that it does not decay.
        cost_weight: Weight of the seconds at stake beside the frequency.
        ghost_ratio: Blocks remembered after they left, per block of capacity.
        admission: Which blocks the tier accepts.
        min_load_tokens: Shorter runs are recomputed instead of loaded.
        resident_frac: Share p of the byte budget that the device gets; ``None`` keeps the given split.
        prefetch_depth: Waiting requests ahead whose loads may start; ``None`` keeps the given depth.
        chunk_blocks: Blocks stored together on the host.
    """

    lambda_recency: float = 1.0
    tau_turnovers: float = 1.0
    half_life_turnovers: float = 0.0
    cost_weight: float = 0.0
    ghost_ratio: float = 8.0
    admission: Admission = Admission.ALL
    min_load_tokens: int = 0
    resident_frac: float | None = None
    prefetch_depth: int | None = None
    chunk_blocks: int = 1

    @property
    def is_lru(self) -> bool:
        """Whether the rank rule reduces to LRU: value has no weight and nothing is refused."""
        return self.lambda_recency >= 1.0 and self.admission is not Admission.TWO_HIT

    @property
    def changes_nothing(self) -> bool:
        """Whether the engine stays as it is: LRU, and no other knob turned either."""
        turned = self.resident_frac is not None or self.prefetch_depth is not None
        return self.is_lru and not turned and self.min_load_tokens == 0 and self.chunk_blocks == 1

    def policy_spec(self, turnover_s: float) -> PolicySpec:
        """The rank rule with this setting on a tier whose content turns over in ``turnover_s`` seconds."""
        if self.is_lru:
            return PolicySpec("lru")
        return PolicySpec.of(
            "rank",
            lambda_recency=self.lambda_recency,
            tau_s=self.tau_turnovers * turnover_s,
            half_life_s=self.half_life_turnovers * turnover_s,
            cost_weight=self.cost_weight,
            ghost_ratio=self.ghost_ratio,
            admission=ADMISSION_CODES[self.admission],
        )


LRU_SETTING = Setting()
