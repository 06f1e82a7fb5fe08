"""The learned rule's keys, compiled; :mod:`autotune.core.hazard_layout` says where a tier keeps what they need."""

from __future__ import annotations

import numpy as np

from autotune.core.decide.fixed import LEAVES_FIRST_NS
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_EDGES
from autotune.core.hazard_layout import (
    ACTIVE,
    BUDGET_BEGAN_NS,
    BY_DEPTH,
    COPY_FACTOR,
    EDGES,
    GAINS,
    SCALE_NS,
    TICK_BEGAN_NS,
    TICK_NS,
    WRITE_BURST_NS,
    WRITE_NS,
    WRITTEN_UP_TO_NS,
)
from autotune.core.history import CLASS, IDLE_SINCE_NS, ODDS
from autotune.core.state import DEPTH, NOW_NS, TierState
from autotune_policies.kernels.decide import (
    age_bin,
    factor_shift_ns,
    hazard_key,
    odds_shift_ns,
    write_price,
    write_reserve_ns,
)
from autotune_policies.kernels.jit import step


@step
def hold_copy(s: TierState, b: int) -> None:
    """A request used the block, so the device holds it too."""
    s.counts[b] = 1.0


@step
def hold_alone(s: TierState, b: int) -> None:
    """The device does not hold the block."""
    s.counts[b] = 0.0


@step
def is_spare(s: TierState, b: int) -> bool:
    """Whether a block is a copy of what the nearer tier holds too, and such copies are to leave first."""
    return s.counts[b] == 1.0 and s.params[COPY_FACTOR] == 0.0


@step
def begins_tick(s: TierState) -> bool:
    """Whether now is in another tick than before; if so, that one has begun."""
    if s.params[ACTIVE] == 0.0 or s.params[SCALE_NS] > 0.0:
        return False
    tick_ns = int(s.params[TICK_NS])
    began_ns = s.ints[NOW_NS] // tick_ns * tick_ns
    if began_ns == s.ints[TICK_BEGAN_NS]:
        return False
    s.ints[TICK_BEGAN_NS] = began_ns
    return True


@step
def _rank(s: TierState, b: int, value_ns: int) -> int:
    age_ns = s.ints[TICK_BEGAN_NS] - s.shared[b, IDLE_SINCE_NS]
    age = age_bin(age_ns, s.params[EDGES : EDGES + N_EDGES])
    factor = s.params[COPY_FACTOR] if s.counts[b] == 1.0 else 1.0
    return hazard_key(value_ns, s.floats[GAINS + s.shared[b, CLASS] * N_AGE_BINS + age], factor)


@step
def _recency(s: TierState, b: int) -> int:
    """LRU by the last use. What one request used has one age, so its depth is taken off it: less than a millisecond."""
    key = s.shared[b, IDLE_SINCE_NS]
    if s.params[BY_DEPTH] == 0.0:
        return key
    if s.counts[b] == 1.0 and s.params[COPY_FACTOR] < 1.0:
        key -= LEAVES_FIRST_NS
    return key - s.nodes[b, DEPTH]


@step
def _fixed_key(s: TierState, b: int, term_ns: int) -> int:
    """The time of the last use, put off by the odds of reuse, by the seconds at stake, and less for a copy."""
    scale_ns = s.params[SCALE_NS]
    key = s.shared[b, IDLE_SINCE_NS] + odds_shift_ns(scale_ns, s.shared[b, ODDS]) + term_ns
    if s.counts[b] == 1.0 and s.params[COPY_FACTOR] < 1.0:
        key += factor_shift_ns(scale_ns, s.params[COPY_FACTOR])
    return key


@step
def key_of(s: TierState, b: int, term: int) -> int:
    """Key of a block; out of force, the time of its last use.

    Args:
        s: State of the tier.
        b: The block.
        term: What the seconds at stake contribute, as the tier's ``terms`` have it.
    """
    if s.params[ACTIVE] == 0.0:
        return _recency(s, b)
    return _fixed_key(s, b, term) if s.params[SCALE_NS] > 0.0 else _rank(s, b, term)


@step
def outranks(s: TierState, key: int, victim_key: int, factor: float) -> bool:
    """Whether a block is worth so many times as much as another one, or more."""
    if s.params[SCALE_NS] > 0.0:
        return factor < np.inf and key >= victim_key + factor_shift_ns(s.params[SCALE_NS], factor)
    return key >= victim_key * factor


@step
def _reserve_ns(s: TierState) -> int:
    elapsed_ns = s.ints[NOW_NS] - s.ints[BUDGET_BEGAN_NS]
    return write_reserve_ns(elapsed_ns, int(s.params[WRITE_NS]), int(s.params[WRITE_BURST_NS]))


@step
def write_factor(s: TierState) -> float:
    """By how much a block must outrank the next victim, now that the write budget is as empty as it is; 0 = no budget.

    Infinite once nothing is left of it.
    """
    return write_price(s.ints[NOW_NS] - s.ints[WRITTEN_UP_TO_NS], int(s.params[WRITE_NS]), _reserve_ns(s))


@step
def has_credit(s: TierState) -> bool:
    """Whether less was written ahead of the budget than the reserve."""
    return s.params[WRITE_NS] == 0.0 or s.ints[WRITTEN_UP_TO_NS] - s.ints[NOW_NS] <= _reserve_ns(s)


@step
def write(s: TierState) -> None:
    """One block is stored: what the budget had saved up gets less by it."""
    if s.params[WRITE_NS] > 0.0:
        least_ns = s.ints[NOW_NS] - int(s.params[WRITE_BURST_NS])
        s.ints[WRITTEN_UP_TO_NS] = max(s.ints[WRITTEN_UP_TO_NS], least_ns) + int(s.params[WRITE_NS])


@step
def take_back_write(s: TierState) -> None:
    """A block left in the round that brought it, so it was never stored."""
    s.ints[WRITTEN_UP_TO_NS] -= int(s.params[WRITE_NS])
