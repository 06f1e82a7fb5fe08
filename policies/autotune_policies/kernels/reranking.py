"""The learned rule ranks all blocks of a tier anew: as another tick begins, and as other rules come into force."""

from __future__ import annotations

from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    ABSENT,
    CHILDREN,
    HEAP_BLOCK,
    HEAP_SIZE,
    INSERTED_BY,
    KEY,
    KEY_SEQUENCE,
    KIND,
    N_BLOCKS,
    PARENT,
    PREV,
    SEQUENCE,
    SLOT,
    WHERE,
    TierState,
)
from autotune_policies.kernels import hazard, ranked
from autotune_policies.kernels.heap import heapify, place
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import clear_lists, list_numbers

_RESIDENT = 1
_QUEUES = list_numbers(2)  # those of LRU on a device, and on a host beneath it


@compiled
def advance(s: TierState) -> None:
    """Time goes on: where another tick began, the learned rule ranks all blocks anew."""
    if s.ints[KIND] != codes.CLASS_HAZARD or not hazard.begins_tick(s):
        return
    for slot in range(s.ints[HEAP_SIZE]):
        b = s.heap[slot, HEAP_BLOCK]
        s.keys[b, KEY] = hazard.key_of(s, b, ranked.value_term(s, b))
        place(s, slot, b)
    heapify(s)


@compiled
def reorder_all(s: TierState) -> None:
    """Other rules are in force: every resident gets its key by them, and the heap is made anew."""
    n = as_int64(0)
    for b in range(s.ints[N_BLOCKS]):
        if s.nodes[b, WHERE] != _RESIDENT:
            continue
        s.nodes[b, SLOT] = -1
        s.keys[b, KEY] = hazard.key_of(s, b, ranked.value_term(s, b))
        if ranked.evictable(s, b):
            place(s, n, b)
            n += 1
    s.ints[HEAP_SIZE] = n
    heapify(s)


@compiled
def take_over(s: TierState, nearer: TierState) -> None:
    """A tier that was LRU is ranked from now on; :func:`reorder_all` must follow.

    Args:
        s: State of the tier.
        nearer: State of the tier that it may hold copies of; the same state if there is none.
    """
    for b in range(s.ints[N_BLOCKS]):
        s.nodes[b, CHILDREN] = 0
    for queue in _QUEUES:
        head = s.ints[N_BLOCKS] + queue
        b = as_int64(s.nodes[head, PREV])
        while b != head:
            s.ints[SEQUENCE] += 1
            s.keys[b, KEY_SEQUENCE] = s.ints[SEQUENCE]
            s.keys[b, INSERTED_BY] = -1
            s.counts[b] = 1.0 if nearer.nodes[b, WHERE] != ABSENT else 0.0
            s.nodes[b, WHERE] = _RESIDENT
            parent = as_int64(s.nodes[b, PARENT])
            if parent >= 0:
                s.nodes[parent, CHILDREN] += 1
            b = as_int64(s.nodes[b, PREV])
    clear_lists(s)
