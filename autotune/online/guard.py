"""The guard: what was learned is obeyed only while its shadow beats that of LRU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.online.settings import GuardSettings


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard made of a period.

    Attributes:
        obey: Whether the learned rule is obeyed from now on.
        changed: Whether it was not so before.
        reason: Why, in words.
    """

    obey: bool
    changed: bool
    reason: str


class Guard:
    """Compares two shadows, period by period, in seconds; starts in LRU.

    The mean gain and its standard error weigh a period less the older it is. Few changes matter more than fast ones,
    for each throws away what a cache has gathered.

    Args:
        settings: Bounds.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self._settings = settings
        self._weight = 0.0
        self._weight_squared = 0.0
        self._gain = 0.0
        self._gain_squared = 0.0
        self._plain = 0.0
        self._since_change = 0
        self.obeys = False

    @property
    def mean_gain_frac(self) -> float:
        """Seconds saved per period against LRU, as a share of LRU's; 0 before anything was compared."""
        return self._gain / self._plain if self._plain > 0.0 else 0.0

    def standard_error_s(self) -> float:
        """Standard error of the mean gain of a period, in seconds; infinite before two periods."""
        if self._since_change < 2 or self._weight <= 0.0:
            return math.inf
        mean = self._gain / self._weight
        variance = max(self._gain_squared / self._weight - mean * mean, 0.0)
        effective = self._weight * self._weight / self._weight_squared
        return math.sqrt(variance / max(effective - 1.0, 1.0))

    def period(self, plain_s: float, learned_s: float) -> Verdict:
        """One period more.

        Args:
            plain_s: Critical-path seconds of the shadow under LRU.
            learned_s: Those of the shadow under the learned rule.
        """
        gain, keep = plain_s - learned_s, self._settings.discount
        self._weight = keep * self._weight + 1.0
        self._weight_squared = keep * keep * self._weight_squared + 1.0
        self._gain = keep * self._gain + gain
        self._gain_squared = keep * self._gain_squared + gain * gain
        self._plain = keep * self._plain + plain_s
        self._since_change += 1
        return self._leaves() if self.obeys else self._enters()

    def _enters(self) -> Verdict:
        mean, error = self._gain / self._weight, self.standard_error_s()
        if self._since_change < self._settings.min_periods:
            return Verdict(False, False, f"{self._since_change} of {self._settings.min_periods} periods seen")
        least = self._settings.enter_frac * self._plain / self._weight
        if mean - self._settings.enter_errors * error <= 0.0 or mean <= least:
            return Verdict(False, False, f"gain {self.mean_gain_frac:+.2%} of LRU's seconds is not sure enough")
        return self._change(f"gain {self.mean_gain_frac:+.2%} of LRU's seconds")

    def _leaves(self) -> Verdict:
        mean, error = self._gain / self._weight, self.standard_error_s()
        if self._since_change < self._settings.min_periods or mean + self._settings.leave_errors * error >= 0.0:
            return Verdict(True, False, f"gain {self.mean_gain_frac:+.2%} of LRU's seconds")
        return self._change(f"loses {-self.mean_gain_frac:.2%} of LRU's seconds")

    def _change(self, reason: str) -> Verdict:
        self.obeys = not self.obeys
        self._since_change = 0
        return Verdict(self.obeys, True, reason)
