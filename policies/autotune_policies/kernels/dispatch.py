"""One name per operation for the simulator; the tier's ``ints[KIND]`` says which policy it means.

This module is what the entry point ``autotune.kernels`` hands out.
"""

from __future__ import annotations

from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    GHOST,
    KIND,
    NEXT_USE,
    SEQUENCE,
    WHERE,
    TierState,
)
from autotune_policies.kernels import lru, ranked
from autotune_policies.kernels.decide import load_pays, prefill_s, transfer_s
from autotune_policies.kernels.jit import compiled
from autotune_policies.kernels.lists import clear_lists

__all__ = ["admits", "clear_lists", "compiled", "demote", "evict", "is_resident", "load_pays", "prefill_s", "refresh", "remove", "transfer_s"]

_FIRST_RANKED = codes.LFU


@compiled
def is_resident(s: TierState, b: int) -> bool:
    """Whether a block lies on the tier."""
    return 0 < s.nodes[b, WHERE] < GHOST


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.touch(s, b)
    else:
        lru.touch(s, b)


@compiled
def admits(s: TierState, b: int) -> bool:
    """Whether a missing block may become resident."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        return ranked.admits(s, b)
    return True


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.insert(s, b)
    else:
        lru.insert(s, b)


@compiled
def demote(s: TierState, b: int) -> None:
    """A missing block became resident because a nearer tier evicted it."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        ranked.demote(s, b)
    else:
        insert(s, b)


@compiled
def refuse(s: TierState, b: int) -> None:
    """A block that is not resident was asked for and stays out."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        ranked.refuse(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.remove(s, b)
    else:
        lru.remove(s, b)


@compiled
def evict(s: TierState) -> int:
    """Choose a resident that is not pinned, forget it and return it; -1 if there is none."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        return ranked.evict(s)
    return lru.evict(s)


@compiled
def refresh(s: TierState, ids, lo: int, hi: int, stride: int, next_use_of, may_insert: bool) -> None:  # type: ignore[no-untyped-def]
    """One request uses blocks ``ids[lo:hi]`` (every ``stride``-th, the last of each chunk), deepest first.

    Resident ones are touched; missing ones are inserted if ``may_insert`` and the policy admits them, else refused.
    """
    kind = s.ints[KIND]
    last = lo + ((hi - lo) // stride) * stride - 1
    if kind == codes.LRU:
        for i in range(last, lo - 1, -stride):
            b = ids[i]
            if s.nodes[b, WHERE] != 0:
                lru.touch(s, b)
            elif may_insert:
                lru.insert(s, b)
        return
    for i in range(last, lo - 1, -stride):
        b = ids[i]
        s.ints[SEQUENCE] += 1
        if next_use_of.shape[0] > 0:
            s.ints[NEXT_USE] = next_use_of[b]
        if is_resident(s, b):
            touch(s, b)
        elif may_insert and admits(s, b):
            insert(s, b)
        else:
            refuse(s, b)
