"""Settings of the online loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.policy import WriteBudget
from autotune.core.types import Arm, RankForm
from autotune.costs.reuse import ReuseSettings

# A loop fits often and begins with little: fewer and smaller trees, from fewer rows, and no waiting for many of them.
ONLINE_FIT = ReuseSettings(
    trees=24, learning_rate=0.19, min_samples_leaf=50, max_tree_rows=6_000, max_rows=16_000, min_rows=100, min_events=10
)


LEAST_BUDGETED_COPY_FACTOR = 0.5


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """When what was learned is obeyed, and when no longer.

    Attributes:
        min_period_requests: Shortest period over which LRU and the learned rule are compared.
        periods_per_turnover: Periods in one turnover of all tiers.
        discount: Weight of a period against the one after it.
        min_periods: Periods before the rule is obeyed for the first time, and between any two changes.
        enter_errors: Standard errors by which the mean gain must exceed 0.
        enter_frac: Share of LRU's seconds that the mean gain must exceed.
        leave_errors: Standard errors that are added to the mean gain before it is found negative.
        drop_errors: Standard errors by which a form of the rule must lose against the one in force, before its shadow
            rests until the next fit.
    """

    min_period_requests: int = 64
    periods_per_turnover: float = 4.0
    discount: float = 0.95
    min_periods: int = 4
    enter_errors: float = 1.0
    enter_frac: float = 0.003
    leave_errors: float = 0.5
    drop_errors: float = 3.0


@dataclass(frozen=True, slots=True)
class OnlineSettings:
    """Settings of the loop.

    Attributes:
        first_fit_requests: Requests before the first fit.
        refit_growth: The next fit comes when this many times as many requests were seen.
        refit_max_requests: But after this many at the latest.
        publish_delay_s: Seconds from a fit to the moment that its model is in force.
        window_rows: Newest rows that are learned from.
        device_age_frac: D, up to which age a reuse is a hit on the device anyway, as a share of the device's turnover.
        ticks_per_horizon: How often residents are ranked anew within the near horizon, or the host's turnover where
            that is shorter.
        copy_factor: Factor on the host rank of a block that the device holds too; under a write budget at least a half,
            for a copy that leaves has to be written again.
        forget_s: How long an unused block is remembered.
        write_bytes_per_s: Bytes per second that may be stored to the host on average; 0 = as many as come.
        write_burst_s: Seconds of that budget that may be saved up.
        form: Whether what is learned ranks blocks anew in every tick, or once, when they become idle; ``None`` = as
            the guard finds either better.
        shadow_frac: Share of chains that the shadows see.
        shadow_min_blocks: Below this many sampled blocks on the device, the shadows see everything.
        fit: How the reuse model is fitted.
        guard: When what was learned is obeyed.
        seed: Draws rows, and the chains that the shadows see.
    """

    first_fit_requests: int = 100
    refit_growth: float = 1.4
    refit_max_requests: int = 4000
    publish_delay_s: float = 5.0
    window_rows: int = 100_000
    device_age_frac: float = 0.3
    ticks_per_horizon: float = 20.0
    copy_factor: float = 0.0
    forget_s: float = 14_400.0
    write_bytes_per_s: float = 0.0
    write_burst_s: float = 3600.0
    form: RankForm | None = None
    shadow_frac: float = 1.0
    shadow_min_blocks: int = 500
    fit: ReuseSettings = field(default=ONLINE_FIT)
    guard: GuardSettings = field(default=GuardSettings())
    seed: int = 0

    def shadow_frac_for(self, device_blocks: int) -> float:
        """Share of chains that the shadows see: everything where the sample would be too small to tell."""
        return self.shadow_frac if device_blocks * self.shadow_frac >= self.shadow_min_blocks else 1.0

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Ways to run beside LRU."""
        return tuple(Arm.of(form) for form in RankForm if self.form in (None, form))

    @property
    def write(self) -> WriteBudget | None:
        """What may be stored to the host; ``None`` = as much as comes."""
        if self.write_bytes_per_s == 0.0:
            return None
        return WriteBudget(bytes_per_s=self.write_bytes_per_s, burst_s=self.write_burst_s)

    @property
    def copy_factor_in_force(self) -> float:
        """Factor on the host rank of a block that the device holds too."""
        return self.copy_factor if self.write is None else max(self.copy_factor, LEAST_BUDGETED_COPY_FACTOR)
