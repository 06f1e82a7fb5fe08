"""The guard: what was learned is obeyed once its shadow has shown to be better than LRU, and no longer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autotune.core.types import Arm
from autotune.online.settings import GuardSettings


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard made of a period.

    Attributes:
        arm: How to run from now on.
        changed: Whether it was another before.
        reason: Why, in words.
    """

    arm: Arm
    changed: bool
    reason: str


@dataclass(slots=True)
class _Saving:
    """What one way saves beside another, by period; a period weighs less the older it is."""

    periods: int = 0
    weight: float = 0.0
    weight_squared: float = 0.0
    total_s: float = 0.0
    squared: float = 0.0

    def add(self, keep: float, saved_s: float) -> None:
        """One period more."""
        self.periods += 1
        self.weight = keep * self.weight + 1.0
        self.weight_squared = keep * keep * self.weight_squared + 1.0
        self.total_s = keep * self.total_s + saved_s
        self.squared = keep * self.squared + saved_s * saved_s

    def mean(self) -> tuple[float, float]:
        """Mean seconds per period, and the standard error of that mean."""
        mean = self.total_s / self.weight
        effective = self.weight * self.weight / self.weight_squared
        variance = max(self.squared / self.weight - mean * mean, 0.0)
        return mean, math.sqrt(variance / max(effective - 1.0, 1.0))


class Guard:
    """Compares the shadows, period by period, in seconds; starts in LRU.

    Few changes matter more than fast ones, for each throws away what a cache has gathered: so another way must be
    better than the present one by more than its error, and LRU is taken as soon as what was learned looks worse.

    Args:
        settings: Bounds.
        arms: Ways to run beside LRU.
    """

    def __init__(self, settings: GuardSettings, arms: Sequence[Arm] = (Arm.HAZARD, Arm.FIXED_KEY)) -> None:
        self._settings = settings
        self._learned = tuple(arms)
        self.arm = Arm.LRU
        self._since_change = 0
        self._lru_s = _Saving()
        self._savings = {
            (beside, arm): _Saving() for beside in (Arm.LRU, *arms) for arm in self._learned if arm is not beside
        }

    def forget(self, arms: Collection[Arm]) -> None:
        """What was compared with these ways no longer counts, for their shadows begin anew."""
        for pair in self._savings:
            if not set(pair).isdisjoint(arms):
                self._savings[pair] = _Saving()

    def gain_frac(self, arm: Arm) -> float:
        """Seconds that a way saves, as a share of LRU's; 0 before anything was compared."""
        if self._lru_s.total_s <= 0.0 or not self._savings[Arm.LRU, arm].periods:
            return 0.0
        return self.saved_s(Arm.LRU, arm)[0] / self._lru_s.mean()[0]

    def saved_s(self, beside: Arm, arm: Arm) -> tuple[float, float]:
        """Mean seconds per period that a way saves beside another, and the standard error of that mean."""
        return self._savings[beside, arm].mean()

    def period(self, costs_s: Mapping[Arm, float], ready: bool) -> Verdict:
        """One period more.

        Args:
            costs_s: Critical-path seconds of the shadow of each way; of those that run.
            ready: Whether something was learned, so that its shadows mean something.
        """
        keep = self._settings.discount
        self._lru_s.add(keep, costs_s[Arm.LRU])
        for (beside, arm), saving in self._savings.items():
            if beside in costs_s and arm in costs_s:
                saving.add(keep, costs_s[beside] - costs_s[arm])
        self._since_change += 1
        if self._since_change < self._settings.min_periods:
            return Verdict(self.arm, False, f"{self._since_change} of {self._settings.min_periods} periods have passed")
        best = self._best() if ready else Arm.LRU
        changed = best is not self.arm
        if changed:
            self.arm, self._since_change = best, 0
        return Verdict(best, changed, self._reason())

    def hopeless(self) -> tuple[Arm, ...]:
        """The forms that the one in force beats for sure, so that their shadows tell nothing new."""
        if self.arm is Arm.LRU:
            return ()
        return tuple(arm for arm in self._learned if arm is not self.arm and self._is_beaten(arm))

    def _best(self) -> Arm:
        present = Arm.LRU if self._loses() else self.arm
        better = [arm for arm in self._learned if arm is not self.arm and self._is_better(arm, present)]
        return max(better, key=lambda arm: self.saved_s(present, arm)[0], default=present)

    def _loses(self) -> bool:
        """Whether the present way looks worse than LRU."""
        if self.arm is Arm.LRU or not self._is_known(Arm.LRU, self.arm):
            return False
        mean, error = self.saved_s(Arm.LRU, self.arm)
        return mean + self._settings.leave_errors * error < 0.0

    def _is_better(self, arm: Arm, present: Arm) -> bool:
        """Whether a way is surely better than the present one, by more than a change is worth."""
        if not self._is_known(present, arm):
            return False
        mean, error = self.saved_s(present, arm)
        least_s = self._settings.enter_frac * self._lru_s.mean()[0]
        return mean - self._settings.enter_errors * error > 0.0 and mean > least_s

    def _is_beaten(self, arm: Arm) -> bool:
        if not self._is_known(self.arm, arm):
            return False
        mean, error = self.saved_s(self.arm, arm)
        return mean + self._settings.drop_errors * error < 0.0

    def _is_known(self, beside: Arm, arm: Arm) -> bool:
        return self._savings[beside, arm].periods >= self._settings.min_periods

    def _reason(self) -> str:
        return f"what was learned saves {' or '.join(map(self._told, self._learned))} of LRU's seconds"

    def _told(self, arm: Arm) -> str:
        saving, lru_s = self._savings[Arm.LRU, arm], self._lru_s.mean()[0]
        error = saving.mean()[1] / lru_s if saving.periods and lru_s > 0.0 else 0.0
        return f"{self.gain_frac(arm):+.2%} ± {error:.2%} ({arm.form})"
