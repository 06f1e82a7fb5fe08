"""The rank of the class-hazard rule: seconds saved per block-second from now on, by class and age of the block.

That order changes as time passes. So time is cut into ticks: within a tick every key is a pure function of the block's
class, of its age when the tick began, and of the seconds at stake; when the next tick begins, all keys are those of
that tick. Whoever keeps the order, in whatever way and at whatever moment, gets the same one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops
from autotune.core.decide.rank import round_half_up

KEY_SCALE = 1024.0
WRITE_OCTAVES = 8.0
WRITE_RESERVE_FRAC = 0.05


def age_bin(age_ns: int, edges_ns: npt.NDArray[np.float64]) -> int:
    """How many of the ascending ``edges_ns`` an age has reached: 0 to ``len(edges_ns)``."""
    low, high = 0, len(edges_ns)
    while low < high:
        middle = (low + high) >> 1
        if edges_ns[middle] <= age_ns:
            low = middle + 1
        else:
            high = middle
    return low


def write_reserve_ns(elapsed_ns: int, block_ns: int, burst_ns: int) -> int:
    """What of a write budget is held back for blocks that are worth more: a twentieth of all it allowed so far.

    Args:
        elapsed_ns: Time since the budget began.
        block_ns: Time in which it allows one block.
        burst_ns: Most that may be saved up, so that no more is held back.
    """
    return max(min(int(elapsed_ns * WRITE_RESERVE_FRAC), burst_ns), block_ns)


def write_price(saved_up_ns: int, block_ns: int, reserve_ns: int) -> float:
    """Factor by which a block must outrank the next victim to be written, under a budget of one block per ``block_ns``.

    1 while the reserve is full, twofold for every eighth of it that was spent, infinite when not one block is left; 0
    without a budget. So a budget is spent on what is worth most, and it holds.

    Args:
        saved_up_ns: Time for which nothing was written yet.
        block_ns: Time in which the budget allows one block; 0 = there is no budget.
        reserve_ns: See :func:`write_reserve_ns`.
    """
    if block_ns <= 0:
        return 0.0
    if saved_up_ns < block_ns:
        return math.inf
    left = min(saved_up_ns / reserve_ns, 1.0)
    return exp2_exactly_rounded_ops(WRITE_OCTAVES * (1.0 - left))


def hazard_key(value_ns: int, gain_per_s: float, factor: float) -> int:
    """Key of a block; the smallest is evicted first.

    Args:
        value_ns: Nanoseconds that a hit on the block saves.
        gain_per_s: Best probability of reuse per second of stay from now on, for its class and age.
        factor: 1, or less for a copy of a block that the device holds too.
    """
    return round_half_up(value_ns * gain_per_s * factor * KEY_SCALE)
