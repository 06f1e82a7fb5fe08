"""The guard: what was learned is obeyed once its shadow has shown to be better than LRU, and no longer."""

from __future__ import annotations

import math
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


class Guard:
    """Compares the shadows, period by period, in seconds; starts in LRU.

    Mean and variance weigh a period less the older it is. Few changes matter more than fast ones, for each throws away
    what a cache has gathered: so what was learned must be better by more than its error, and LRU is taken as soon as
    what was learned looks worse.

    Args:
        settings: Bounds.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self._settings = settings
        self.arm = Arm.LRU
        self._since_change = 0
        self.forget()

    def forget(self) -> None:
        """What was compared so far no longer counts, for a shadow follows another rule now."""
        self._weight = self._weight_squared = self._lru_s = self._saved_s = self._saved_squared = 0.0
        self.periods = 0

    @property
    def gain_frac(self) -> float:
        """Seconds that what was learned saves, as a share of LRU's; 0 before anything was compared."""
        return self._saved_s / self._lru_s if self._lru_s > 0.0 else 0.0

    def saved_s(self) -> tuple[float, float]:
        """Mean seconds per period that what was learned saves, and the standard error of that mean."""
        mean = self._saved_s / self._weight
        effective = self._weight * self._weight / self._weight_squared
        variance = max(self._saved_squared / self._weight - mean * mean, 0.0)
        return mean, math.sqrt(variance / max(effective - 1.0, 1.0))

    def period(self, lru_s: float, learned_s: float, ready: bool) -> Verdict:
        """One period more.

        Args:
            lru_s: Critical-path seconds of the shadow under LRU.
            learned_s: The same of the shadow under what was learned.
            ready: Whether there is a learned rule, so that its shadow means something.
        """
        keep, saved_s = self._settings.discount, lru_s - learned_s
        self._weight = keep * self._weight + 1.0
        self._weight_squared = keep * keep * self._weight_squared + 1.0
        self._lru_s = keep * self._lru_s + lru_s
        self._saved_s = keep * self._saved_s + saved_s
        self._saved_squared = keep * self._saved_squared + saved_s * saved_s
        self.periods += 1
        self._since_change += 1
        if min(self.periods, self._since_change) < self._settings.min_periods:
            return Verdict(self.arm, False, f"{self.periods} periods seen, {self._settings.min_periods} are needed")
        best = self._best(ready)
        changed = best is not self.arm
        if changed:
            self.arm, self._since_change = best, 0
        return Verdict(best, changed, f"what was learned saves {self.gain_frac:+.2%} of LRU's seconds")

    def _best(self, ready: bool) -> Arm:
        settings, (mean, error) = self._settings, self.saved_s()
        if self.arm is Arm.LEARNED:
            return Arm.LRU if mean + settings.leave_errors * error < 0.0 else Arm.LEARNED
        least = settings.enter_frac * self._lru_s / self._weight
        return Arm.LEARNED if ready and mean - settings.enter_errors * error > 0.0 and mean > least else Arm.LRU
