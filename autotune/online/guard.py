"""The guard: of several ways to run, the one that its shadow has shown to be better is taken, and none before that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from autotune.online.settings import GuardSettings


class Arm(IntEnum):
    """Ways to run, the safest first.

    ``STOCK``: LRU with eager stores, as engines do by themselves. ``STAGED``: LRU with the store mode that the learned
    rule would use. ``LEARNED``: what was learned.
    """

    STOCK = 0
    STAGED = 1
    LEARNED = 2


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
    """Compares the shadows, period by period, in seconds; starts as the engine does by itself.

    Means and covariances weigh a period less the older it is. Few changes matter more than fast ones, for each throws
    away what a cache has gathered: so a riskier way must be better by more than its error, and a safer one is taken as
    soon as the riskier looks worse.

    Args:
        settings: Bounds.
        safest: The way to start with; a safer one is never taken.
    """

    def __init__(self, settings: GuardSettings, safest: Arm = Arm.STOCK) -> None:
        self._settings = settings
        self._safest = safest
        self.arm = safest
        self._since_change = 0
        self.forget()

    def forget(self) -> None:
        """What was compared so far no longer counts, for a shadow follows another rule now."""
        n = len(Arm)
        self._weight = self._weight_squared = 0.0
        self._sum: npt.NDArray[np.float64] = np.zeros(n)
        self._products: npt.NDArray[np.float64] = np.zeros((n, n))
        self.periods = 0

    def gain_frac(self, arm: Arm) -> float:
        """Seconds that a way saves against stock LRU, as a share of LRU's; 0 before anything was compared."""
        stock = float(self._sum[Arm.STOCK])
        return float(stock - self._sum[arm]) / stock if stock > 0.0 else 0.0

    def difference_s(self, arm: Arm, other: Arm) -> tuple[float, float]:
        """Mean seconds per period by which ``arm`` costs more than ``other``, and the standard error of that mean."""
        mean = (self._sum[arm] - self._sum[other]) / self._weight
        products = self._products
        squares = (products[arm, arm] - 2.0 * products[arm, other] + products[other, other]) / self._weight
        effective = self._weight * self._weight / self._weight_squared
        variance = max(float(squares) - float(mean) ** 2, 0.0)
        return float(mean), math.sqrt(variance / max(effective - 1.0, 1.0))

    def period(self, seconds: tuple[float, float, float], ready: bool) -> Verdict:
        """One period more.

        Args:
            seconds: Critical-path seconds of each shadow.
            ready: Whether there is a learned rule, so that its shadow means something.
        """
        keep, costs = self._settings.discount, np.array(seconds)
        self._weight = keep * self._weight + 1.0
        self._weight_squared = keep * keep * self._weight_squared + 1.0
        self._sum = keep * self._sum + costs
        self._products = keep * self._products + np.outer(costs, costs)
        self.periods += 1
        self._since_change += 1
        if min(self.periods, self._since_change) < self._settings.min_periods:
            return Verdict(self.arm, False, f"{self.periods} periods seen, {self._settings.min_periods} are needed")
        best = self._best(Arm.LEARNED if ready else Arm.STAGED)
        if best is self.arm:
            return Verdict(self.arm, False, f"{self.gain_frac(self.arm):+.2%} of LRU's seconds saved")
        return self._change(best)

    def _best(self, riskiest: Arm) -> Arm:
        """The cheapest of the ways that are allowed from here."""
        allowed = [arm for arm in Arm if arm is self.arm or (self._safest <= arm <= riskiest and self._allows(arm))]
        return min(allowed, key=lambda arm: float(self._sum[arm]))

    def _allows(self, arm: Arm) -> bool:
        mean, error = self.difference_s(self.arm, arm)
        if arm < self.arm:
            return mean - self._settings.leave_errors * error > 0.0
        least = self._settings.enter_frac * float(self._sum[self.arm]) / self._weight
        return mean - self._settings.enter_errors * error > 0.0 and mean > least

    def _change(self, arm: Arm) -> Verdict:
        old, new = self.gain_frac(self.arm), self.gain_frac(arm)
        reason = f"saves {new:+.2%} of LRU's seconds; the way until now, {self.arm.name.lower()}, {old:+.2%}"
        self.arm = arm
        self._since_change = 0
        return Verdict(arm, True, reason)
