"""The learned rule's keys, compiled; :mod:`autotune.core.hazard_layout` says where a tier keeps what they need."""

from __future__ import annotations

import numpy as np

from autotune.core.decide.reuse_layout import N_AGE_BINS, N_EDGES
from autotune.core.hazard_layout import (
    COPY_FACTOR,
    EDGES,
    GAINS,
    SCALE_NS,
    TICK_BEGAN_NS,
    TICK_NS,
)
from autotune.core.history import CLASS, IDLE_SINCE_NS, ODDS
from autotune.core.state import NOW_NS, TierState
from autotune_policies.kernels.decide import (
    age_bin,
    factor_shift_ns,
    hazard_key,
    odds_shift_ns,
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
    if s.params[SCALE_NS] > 0.0:
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
def _fixed_key(s: TierState, b: int, term_ns: int) -> int:
    """The time of the last use, put off by the odds of reuse, by the seconds at stake, and less for a copy."""
    scale_ns = s.params[SCALE_NS]
    key = s.shared[b, IDLE_SINCE_NS] + odds_shift_ns(scale_ns, s.shared[b, ODDS]) + term_ns
    if s.counts[b] == 1.0 and s.params[COPY_FACTOR] < 1.0:
        key += factor_shift_ns(scale_ns, s.params[COPY_FACTOR])
    return key


@step
def key_of(s: TierState, b: int, term: int) -> int:
    """Key of a block.

    Args:
        s: State of the tier.
        b: The block.
        term: What the seconds at stake contribute, as the tier's ``terms`` have it.
    """
    return _fixed_key(s, b, term) if s.params[SCALE_NS] > 0.0 else _rank(s, b, term)


@step
def outranks(s: TierState, key: int, victim_key: int, factor: float) -> bool:
    """Whether a block is worth so many times as much as another one, or more."""
    if s.params[SCALE_NS] > 0.0:
        return factor < np.inf and key >= victim_key + factor_shift_ns(s.params[SCALE_NS], factor)
    return key >= victim_key * factor
