"""Indexed binary heap over ``(key, sequence)`` of the blocks of one tier; the root is the next victim.

``HEAP_KEY``/``HEAP_SEQUENCE`` are what the heap was last ordered by. A key that only grew is left where it is and put
right when it reaches the root, so that a touch costs no heap work: the stored key is a lower bound of the true one.
"""

from __future__ import annotations

from autotune.core.state import (
    HEAP_KEY,
    HEAP_SEQUENCE,
    HEAP_SIZE,
    KEY,
    KEY_SEQUENCE,
    SLOT,
    TierState,
)
from autotune_policies.kernels.jit import compiled


@compiled
def _before(s: TierState, a: int, b: int) -> bool:
    if s.keys[a, HEAP_KEY] != s.keys[b, HEAP_KEY]:
        return s.keys[a, HEAP_KEY] < s.keys[b, HEAP_KEY]
    return s.keys[a, HEAP_SEQUENCE] < s.keys[b, HEAP_SEQUENCE]


@compiled
def _sift_up(s: TierState, slot: int) -> None:
    b = s.heap[slot]
    while slot > 0:
        parent = (slot - 1) >> 1
        p = s.heap[parent]
        if not _before(s, b, p):
            break
        s.heap[slot] = p
        s.nodes[p, SLOT] = slot
        slot = parent
    s.heap[slot] = b
    s.nodes[b, SLOT] = slot


@compiled
def _sift_down(s: TierState, slot: int) -> None:
    size = s.ints[HEAP_SIZE]
    b = s.heap[slot]
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        if child + 1 < size and _before(s, s.heap[child + 1], s.heap[child]):
            child += 1
        c = s.heap[child]
        if not _before(s, c, b):
            break
        s.heap[slot] = c
        s.nodes[c, SLOT] = slot
        slot = child
    s.heap[slot] = b
    s.nodes[b, SLOT] = slot


@compiled
def _order_by_true_key(s: TierState, b: int) -> None:
    s.keys[b, HEAP_KEY] = s.keys[b, KEY]
    s.keys[b, HEAP_SEQUENCE] = s.keys[b, KEY_SEQUENCE]


@compiled
def push(s: TierState, b: int) -> None:
    """Add a block that is not in the heap, ordered by its present key; O(log n)."""
    _order_by_true_key(s, b)
    slot = s.ints[HEAP_SIZE]
    s.ints[HEAP_SIZE] = slot + 1
    s.heap[slot] = b
    _sift_up(s, slot)


@compiled
def update(s: TierState, b: int) -> None:
    """Take note of a changed key: O(1) if it grew, O(log n) if it shrank; nothing if the block is not in the heap."""
    slot = s.nodes[b, SLOT]
    if slot < 0:
        return
    key = s.keys[b, KEY]
    if key < s.keys[b, HEAP_KEY] or (key == s.keys[b, HEAP_KEY] and s.keys[b, KEY_SEQUENCE] < s.keys[b, HEAP_SEQUENCE]):
        _order_by_true_key(s, b)
        _sift_up(s, slot)


@compiled
def take_out(s: TierState, b: int) -> None:
    """Remove a block from wherever it stands in the heap; nothing if it is not in it. O(log n)."""
    slot = s.nodes[b, SLOT]
    if slot < 0:
        return
    s.nodes[b, SLOT] = -1
    size = s.ints[HEAP_SIZE] - 1
    s.ints[HEAP_SIZE] = size
    if slot == size:
        return
    last = s.heap[size]
    s.heap[slot] = last
    s.nodes[last, SLOT] = slot
    _sift_up(s, slot)
    _sift_down(s, s.nodes[last, SLOT])


@compiled
def settle_root(s: TierState) -> bool:
    """Order the root by its true key; whether it was stale (then another block may be the root now)."""
    b = s.heap[0]
    if s.keys[b, HEAP_KEY] == s.keys[b, KEY] and s.keys[b, HEAP_SEQUENCE] == s.keys[b, KEY_SEQUENCE]:
        return False
    _order_by_true_key(s, b)
    _sift_down(s, 0)
    return True
