"""Estimate: a figure with the interval that it is known to lie in, how much evidence there is, and how old that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure that was learned, or taken from a table where nothing could be learned yet.

    Attributes:
        name: What it is, such as ``prefill_linear_s``.
        value: Best guess, in ``unit``.
        low: Lower end of the 95 % interval.
        high: Upper end.
        unit: Unit of the three.
        samples: Observations that it rests on; 0 = a table alone.
        age_s: Seconds since the newest observation; ``None`` = there is none.
        source: Where it comes from, in words, with the weight of each part.

    Raises:
        ConfigError: the value lies outside its interval, or one of the three is no number.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    samples: int
    age_s: float | None
    source: str

    def __post_init__(self) -> None:
        """Refuse an interval that means nothing."""
        if not self.low <= self.value <= self.high:
            raise ConfigError(
                f"the estimate {self.name} lies in its interval", got=f"{self.value} in [{self.low}, {self.high}]"
            )

    @property
    def is_measured(self) -> bool:
        """Whether any observation went into it."""
        return self.samples > 0

    @property
    def spread_frac(self) -> float:
        """Half the interval as a share of the value; infinite where the value is 0 and the interval is not."""
        half = (self.high - self.low) * 0.5
        if self.value == 0.0:
            return math.inf if half > 0.0 else 0.0
        return half / abs(self.value)


def t_quantile(degrees: float) -> float:
    """97.5 % quantile of Student's t with that many degrees of freedom, within 2 % from 3 degrees on.

    Source: Cornish-Fisher expansion about the normal quantile, Abramowitz and Stegun, 26.7.5.
    """
    z, n = 1.959963984540054, max(degrees, 1.0)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / n + second / n**2 + third / n**3


def poisson_interval(events: float, exposure: float) -> tuple[float, float]:
    """95 % interval of a rate of which ``events`` were seen over ``exposure``; both ends are finite.

    Source: Wilson and Hilferty's approximation of the chi-squared quantiles in Garwood's interval, 1936.
    """
    if exposure <= 0.0:
        raise ConfigError("a rate needs an exposure above 0", got=exposure)
    low = 0.0 if events <= 0.0 else events * max(0.0, _cubed(events, -1.959963984540054)) / exposure
    return low, (events + 1.0) * _cubed(events + 1.0, 1.959963984540054) / exposure


def _cubed(events: float, z: float) -> float:
    return float((1.0 - 1.0 / (9.0 * events) + z / (3.0 * math.sqrt(events))) ** 3)
