"""Indexed binary heap over ``(key, sequence)`` of the blocks of one tier; the root is the next victim.

A key that only grew is left where it is and put right when it reaches the root, so that a touch costs no heap work:
what a slot is ordered by is a lower bound of its block's true key. The order lies in the slots rather than with the
blocks, so that sifting runs over neighbouring memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.state import (
    HEAP_BLOCK,
    HEAP_KEY,
    HEAP_SEQUENCE,
    HEAP_SIZE,
    KEY,
    KEY_SEQUENCE,
    SLOT,
    TierState,
)
from autotune_policies.kernels.jit import as_int64, compiled, step

_Heap = npt.NDArray[np.int64]
_Nodes = npt.NDArray[np.int32]


@step
def _set(heap: _Heap, nodes: _Nodes, slot: int, key: int, sequence: int, b: int) -> None:
    heap[slot, HEAP_KEY] = key
    heap[slot, HEAP_SEQUENCE] = sequence
    heap[slot, HEAP_BLOCK] = b
    nodes[b, SLOT] = slot


@step
def _is_before(heap: _Heap, slot: int, key: int, sequence: int) -> bool:
    """Whether a slot comes before ``(key, sequence)``."""
    other = heap[slot, HEAP_KEY]
    return other < key or (other == key and heap[slot, HEAP_SEQUENCE] < sequence)


@compiled
def _sift_up(heap: _Heap, nodes: _Nodes, slot: int, key: int, sequence: int, b: int) -> None:
    """Put a block into the free ``slot`` or above it."""
    while slot > 0:
        parent = (slot - 1) >> 1
        other = heap[parent, HEAP_KEY]
        if other < key or (other == key and heap[parent, HEAP_SEQUENCE] <= sequence):
            break
        _set(heap, nodes, slot, other, heap[parent, HEAP_SEQUENCE], heap[parent, HEAP_BLOCK])
        slot = parent
    _set(heap, nodes, slot, key, sequence, b)


@compiled
def _sift_down(heap: _Heap, nodes: _Nodes, size: int, slot: int, key: int, sequence: int, b: int) -> None:
    """Put a block into the free ``slot`` or below it."""
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(heap, child + 1, heap[child, HEAP_KEY], heap[child, HEAP_SEQUENCE]):
            child += 1
        if not _is_before(heap, child, key, sequence):
            break
        _set(heap, nodes, slot, heap[child, HEAP_KEY], heap[child, HEAP_SEQUENCE], heap[child, HEAP_BLOCK])
        slot = child
    _set(heap, nodes, slot, key, sequence, b)


@step
def push(s: TierState, b: int) -> None:
    """Add a block that is not in the heap, ordered by its present key; O(log n)."""
    slot = s.ints[HEAP_SIZE]
    s.ints[HEAP_SIZE] = slot + 1
    _sift_up(s.heap, s.nodes, slot, s.keys[b, KEY], s.keys[b, KEY_SEQUENCE], b)


@step
def update(s: TierState, b: int) -> None:
    """Take note of the changed key of a block in the heap: O(1) if it grew, O(log n) if it shrank."""
    slot = as_int64(s.nodes[b, SLOT])
    key, sequence = s.keys[b, KEY], s.keys[b, KEY_SEQUENCE]
    if not _is_before(s.heap, slot, key, sequence):
        _sift_up(s.heap, s.nodes, slot, key, sequence, b)


@compiled
def _take_out(heap: _Heap, nodes: _Nodes, size: int, slot: int) -> None:
    """Close the gap at ``slot`` of a heap that has ``size`` blocks left, with the block of its last slot."""
    key, sequence, b = heap[size, HEAP_KEY], heap[size, HEAP_SEQUENCE], heap[size, HEAP_BLOCK]
    if slot > 0 and not _is_before(heap, (slot - 1) >> 1, key, sequence):
        _sift_up(heap, nodes, slot, key, sequence, b)
    else:
        _sift_down(heap, nodes, size, slot, key, sequence, b)


@step
def take_out(s: TierState, b: int) -> None:
    """Remove a block from wherever it stands in the heap; nothing if it is not in it. O(log n)."""
    slot = as_int64(s.nodes[b, SLOT])
    if slot < 0:
        return
    s.nodes[b, SLOT] = -1
    size = s.ints[HEAP_SIZE] - 1
    s.ints[HEAP_SIZE] = size
    if slot < size:
        _take_out(s.heap, s.nodes, size, slot)


@step
def replace_root(s: TierState, by: int) -> None:
    """Take the root out and put a block that is not in the heap in its place.

    Cheap where the new key is near the old one, as those of a block and of its parent mostly are.
    """
    s.nodes[s.heap[0, HEAP_BLOCK], SLOT] = -1
    _sift_down(s.heap, s.nodes, s.ints[HEAP_SIZE], as_int64(0), s.keys[by, KEY], s.keys[by, KEY_SEQUENCE], by)


@step
def settle_root(s: TierState) -> bool:
    """Order the root by its true key; whether it was stale (then another block may be the root now)."""
    b = s.heap[0, HEAP_BLOCK]
    key, sequence = s.keys[b, KEY], s.keys[b, KEY_SEQUENCE]
    if s.heap[0, HEAP_KEY] == key and s.heap[0, HEAP_SEQUENCE] == sequence:
        return False
    _sift_down(s.heap, s.nodes, s.ints[HEAP_SIZE], as_int64(0), key, sequence, b)
    return True


@step
def place(s: TierState, slot: int, b: int) -> None:
    """Put a block with its present key into a slot, in no order; :func:`heapify` must follow."""
    _set(s.heap, s.nodes, slot, s.keys[b, KEY], s.keys[b, KEY_SEQUENCE], b)


@compiled
def heapify(s: TierState) -> None:
    """Make the filled slots a heap, in O(n).

    Source: Floyd, "Algorithm 245: Treesort 3", CACM 7(12), 1964.
    """
    heap, size = s.heap, s.ints[HEAP_SIZE]
    for slot in range((size >> 1) - 1, -1, -1):
        key, sequence, b = heap[slot, HEAP_KEY], heap[slot, HEAP_SEQUENCE], heap[slot, HEAP_BLOCK]
        _sift_down(heap, s.nodes, size, as_int64(slot), key, sequence, b)
