"""The learned rule as a key that does not change while a block lies idle: the moment of its last use, put off.

``key = idle since + scale * ((0.7 * log2(uses) + near + far) / 3 + ln(seconds at stake))``, with the scores of both
horizons in log odds and thrice the near horizon as scale: a block that is e times as dear stays three horizons longer.
The smallest key leaves first. There are no ticks; it is for engines whose order cannot be made anew.
"""

from __future__ import annotations

from autotune.core.decide.arithmetic import LN_2, log2_exactly_rounded_ops
from autotune.core.decide.rank import NS_PER_S, round_half_up

SCALE_HORIZONS = 3.0
USES_WEIGHT = 0.7
ODDS_PARTS = 3
SHIFT_LIMIT_NS = 1 << 60
LEAVES_FIRST_NS = 1 << 62
_ODDS_UNIT = 2.0**-40
_WHOLE_ODDS = 2.0**40


def scale_ns(near_horizon_s: float) -> float:
    """Nanoseconds that one unit of logarithm puts a block off.

    Args:
        near_horizon_s: Near horizon of the model: half of all blocks that come back do so within it.
    """
    return max(SCALE_HORIZONS * near_horizon_s * NS_PER_S, 1.0)


def reuse_odds(near: int, far: int, uses: float) -> int:
    """How likely a run is used again, in units of 2**-40 of log odds: both scores, and a part for its uses so far.

    Args:
        near: Score of the near horizon.
        far: Score of the far horizon.
        uses: Requests that used the run, at least 1.
    """
    return near + far + round_half_up(USES_WEIGHT * log2_exactly_rounded_ops(uses) * _WHOLE_ODDS)


def odds_shift_ns(unit_ns: float, odds: int) -> int:
    """By how much the log odds of a run put off its blocks, in nanoseconds; see :func:`reuse_odds`.

    Args:
        unit_ns: See :func:`scale_ns`.
        odds: Of the run; a third of them counts.
    """
    return _bounded(unit_ns * (odds * _ODDS_UNIT / ODDS_PARTS))


def factor_shift_ns(unit_ns: float, factor: float) -> int:
    """By how much a factor on the worth of a block puts it off, in nanoseconds: ``unit * ln(factor)``.

    Args:
        unit_ns: See :func:`scale_ns`.
        factor: Seconds at stake, or any other factor; 0 or less brings a block before all others.
    """
    if factor <= 0.0:
        return -LEAVES_FIRST_NS
    return _bounded(unit_ns * (LN_2 * log2_exactly_rounded_ops(factor)))


def value_shift_ns(unit_ns: float, value_ns: int) -> int:
    """By how much the seconds at stake put a block off, in nanoseconds, against one with a second at stake.

    Args:
        unit_ns: See :func:`scale_ns`.
        value_ns: Nanoseconds that a hit on the block saves; less than one counts as one.
    """
    return factor_shift_ns(unit_ns, max(value_ns, 1) / NS_PER_S)


def _bounded(shift_ns: float) -> int:
    """Whole nanoseconds, few enough that a key's parts add up without overflow."""
    if shift_ns >= SHIFT_LIMIT_NS:
        return SHIFT_LIMIT_NS
    if shift_ns <= -SHIFT_LIMIT_NS:
        return -SHIFT_LIMIT_NS
    return round_half_up(shift_ns)
