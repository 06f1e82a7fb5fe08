"""The guard: what was learned is obeyed once its shadow has shown to be better than LRU, and no longer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

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

    total_s: float = 0.0
    squared: float = 0.0

    def add(self, keep: float, saved_s: float) -> None:
        self.total_s = keep * self.total_s + saved_s
        self.squared = keep * self.squared + saved_s * saved_s


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
        self.forget()

    def forget(self) -> None:
        """What was compared so far no longer counts, for the shadows follow another rule now."""
        self._weight = self._weight_squared = self._lru_s = 0.0
        self._savings = {(Arm.LRU, arm): _Saving() for arm in self._learned}
        self._savings |= {pair: _Saving() for pair in permutations(self._learned, 2)}
        self.periods = 0

    def gain_frac(self, arm: Arm) -> float:
        """Seconds that a way saves, as a share of LRU's; 0 before anything was compared."""
        return self._savings[Arm.LRU, arm].total_s / self._lru_s if self._lru_s > 0.0 else 0.0

    def saved_s(self, beside: Arm, arm: Arm) -> tuple[float, float]:
        """Mean seconds per period that a way saves beside another, and the standard error of that mean."""
        saving = self._savings[beside, arm]
        mean = saving.total_s / self._weight
        effective = self._weight * self._weight / self._weight_squared
        variance = max(saving.squared / self._weight - mean * mean, 0.0)
        return mean, math.sqrt(variance / max(effective - 1.0, 1.0))

    def period(self, costs_s: Mapping[Arm, float], ready: bool) -> Verdict:
        """One period more.

        Args:
            costs_s: Critical-path seconds of the shadow of each way.
            ready: Whether something was learned, so that its shadows mean something.
        """
        keep = self._settings.discount
        self._weight = keep * self._weight + 1.0
        self._weight_squared = keep * keep * self._weight_squared + 1.0
        self._lru_s = keep * self._lru_s + costs_s[Arm.LRU]
        for (beside, arm), saving in self._savings.items():
            saving.add(keep, costs_s[beside] - costs_s[arm])
        self.periods += 1
        self._since_change += 1
        if min(self.periods, self._since_change) < self._settings.min_periods:
            return Verdict(self.arm, False, f"{self.periods} periods seen, {self._settings.min_periods} are needed")
        best = self._best() if ready else Arm.LRU
        changed = best is not self.arm
        if changed:
            self.arm, self._since_change = best, 0
        return Verdict(best, changed, self._reason())

    def _best(self) -> Arm:
        present = Arm.LRU if self._loses() else self.arm
        better = [arm for arm in self._learned if arm is not self.arm and self._is_better(arm, present)]
        return max(better, key=lambda arm: self.saved_s(present, arm)[0], default=present)

    def _loses(self) -> bool:
        """Whether the present way looks worse than LRU."""
        if self.arm is Arm.LRU:
            return False
        mean, error = self.saved_s(Arm.LRU, self.arm)
        return mean + self._settings.leave_errors * error < 0.0

    def _is_better(self, arm: Arm, present: Arm) -> bool:
        """Whether a way is surely better than the present one, by more than a change is worth."""
        mean, error = self.saved_s(present, arm)
        least_s = self._settings.enter_frac * self._lru_s / self._weight
        return mean - self._settings.enter_errors * error > 0.0 and mean > least_s

    def _reason(self) -> str:
        gains = (f"{self.gain_frac(arm):+.2%} ({arm.form})" for arm in self._learned)
        return f"what was learned saves {' or '.join(gains)} of LRU's seconds"
