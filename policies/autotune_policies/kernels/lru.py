"""LRU, compiled: one list, evict its oldest."""

from __future__ import annotations

from autotune.core.state import ABSENT, NEWCOMERS, SIZE, WHERE, TierState
from autotune_policies.kernels.jit import compiled
from autotune_policies.kernels.lists import make_newest, oldest_idle, push_newest, unlink

_RESIDENT = 1


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    make_newest(s, 0, b)


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    push_newest(s, 0, b)
    s.nodes[b, WHERE] = _RESIDENT
    s.ints[SIZE] += 1
    s.ints[NEWCOMERS] += 1


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    unlink(s, 0, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1


@compiled
def evict(s: TierState) -> int:
    """The oldest block that is not pinned leaves; -1 if there is none."""
    b = oldest_idle(s, 0)
    if b >= 0:
        remove(s, b)
    return b
