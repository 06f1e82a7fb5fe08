"""How fast the machine computes now against then, and promises of times that keep up with it.

Seconds of prefill, as the engine's telemetry divides them among requests, are compared with what the fit of one moment
gives for as many prefills of the same tokens at the same depths. So what a policy changes about which tokens are
computed does not look like another speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.core.access import AccessRecord
from autotune.core.estimates import Estimate
from autotune.costs.model import PREFILL_FIXED, PREFILL_LINEAR, PREFILL_QUADRATIC
from autotune.daemon.bounds import Bounds
from autotune.daemon.windows import Interval, Window


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What prefills took at one moment.

    Attributes:
        fixed_s: Seconds of any prefill.
        linear_s: Seconds per token.
        quadratic_s: Seconds per pair of tokens that attend to each other.
    """

    fixed_s: float
    linear_s: float
    quadratic_s: float

    @classmethod
    def of(cls, estimates: Iterable[Estimate]) -> Yardstick:
        """By what is known now; a part that is not known counts for nothing."""
        known = {each.name: each.value for each in estimates}
        return cls(*(known.get(name, 0.0) for name in (PREFILL_FIXED, PREFILL_LINEAR, PREFILL_QUADRATIC)))

    def expected_s(self, interval: Interval) -> float | None:
        """What the prefills of an interval would have taken then; ``None`` = it does not know of any."""
        if interval.prefills is None or interval.prefill_tokens is None or interval.prefill_pairs is None:
            return None
        return (
            self.fixed_s * interval.prefills
            + self.linear_s * interval.prefill_tokens
            + self.quadratic_s * interval.prefill_pairs
        )


def with_prefills(interval: Interval, records: Sequence[Any], chunk_tokens: int) -> Interval:
    """An interval with the prefills that were told in it: their number, seconds, tokens, and pairs of tokens.

    Args:
        interval: What the engine's counters say.
        records: What its telemetry told in the same round.
        chunk_tokens: Tokens of one block of a record.
    """
    count = seconds = tokens = pairs = 0.0
    for record in records:
        if isinstance(record, AccessRecord) and record.tier is None and record.seconds > 0.0:
            before = record.first_depth_blocks * chunk_tokens
            count += 1.0
            seconds += record.seconds
            tokens += record.tokens
            pairs += record.tokens * before + record.tokens * (record.tokens + 1.0) * 0.5
    return replace(interval, prefills=count, prefill_s=seconds, prefill_tokens=tokens, prefill_pairs=pairs)


def pace(window: Window, then: Yardstick, confidence: float) -> Bounds | None:
    """Seconds of prefill per second that it would have taken then: above 1 the machine is slower.

    ``None`` = too little was measured.
    """
    return window.ratio(
        lambda each: each.prefill_s,
        then.expected_s,
        confidence,
    )


@dataclass(frozen=True, slots=True)
class TimePromise:
    """A mean time that was promised, at the speed that the machine had then.

    Attributes:
        value_s: The promise.
        low_s: Its lower bound.
        high_s: Its upper bound.
        yardstick: What prefills took at that moment, by the fit.
        pace: The prefills of that moment against the fit; ``None`` = not known.
    """

    value_s: float
    low_s: float
    high_s: float
    yardstick: Yardstick
    pace: Bounds | None

    def at_the_speed_of(self, window: Window, confidence: float) -> TimePromise:
        """The same promise for a machine as fast as in that window; as it was where that is not known.

        Bounds get wider by what is not known of either speed.
        """
        now = pace(window, self.yardstick, confidence)
        if self.pace is None or now is None or now.value <= 0.0 or self.pace.value <= 0.0:
            return self
        factor = now.value / self.pace.value
        doubt = math.hypot(_reach(now), _reach(self.pace))
        low_s = self.low_s * factor * (1.0 - min(1.0, doubt))
        return replace(
            self, value_s=self.value_s * factor, low_s=low_s, high_s=self.high_s * factor * (1.0 + doubt), pace=now
        )


def _reach(bounds: Bounds) -> float:
    return (bounds.high - bounds.value) / bounds.value
