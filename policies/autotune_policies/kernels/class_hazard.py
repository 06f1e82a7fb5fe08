"""The policy of the learned rule, compiled: the smallest key that may leave does, by the keys of ``hazard``.

It shares the heap with the other policies that evict the smallest key, but remembers nothing of blocks that left, for
the history knows the past of every block; and only what stands in the heap has a key that is up to date.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.hazard_layout import WRITE_NS
from autotune.core.state import (
    ABSENT,
    CAPACITY,
    CHILDREN,
    DEPTH,
    HEAP_BLOCK,
    HEAP_SIZE,
    INSERTED_BY,
    KEY,
    KEY_SEQUENCE,
    N_BLOCKS,
    PARENT,
    PINS,
    PREV,
    REQUEST,
    SEQUENCE,
    SIZE,
    SLOT,
    WHERE,
    TierState,
)
from autotune_policies.kernels import hazard, writes
from autotune_policies.kernels.heap import heapify, place, push, replace_root, settle_root, take_out, update
from autotune_policies.kernels.jit import as_int64, compiled, step
from autotune_policies.kernels.lists import clear_lists, list_numbers

_RESIDENT = 1
_QUEUES = list_numbers(2)  # those of LRU on a device, and on a host beneath it


@step
def _key(s: TierState, b: int) -> int:
    term = s.terms[min(as_int64(s.nodes[b, DEPTH]), s.terms.shape[0] - 1)]
    return hazard.key_of(s, b, term)


@step
def _may_leave(s: TierState, b: int) -> bool:
    """Whether no resident continues a block; what continues a spare copy hangs on the nearer tier's block."""
    return s.nodes[b, CHILDREN] == 0 or hazard.is_spare(s, b)


@step
def _reorder(s: TierState, b: int) -> None:
    """A block was used, or came in; a key is counted only if it is needed, for a new leaf gets its own anyway."""
    s.keys[b, KEY_SEQUENCE] = s.ints[SEQUENCE]
    if s.nodes[b, SLOT] >= 0:
        s.keys[b, KEY] = _key(s, b)
        update(s, b)
    elif _may_leave(s, b):
        s.keys[b, KEY] = _key(s, b)
        push(s, b)


@compiled
def _is_worth_writing(s: TierState, b: int) -> bool:
    """Whether the write budget allows a missing block.

    One that a resident continues needs no rank, for without it the resident is of no use; it may even be written on
    credit, which the next ones have to wait for.
    """
    if s.nodes[b, CHILDREN] > 0:
        return writes.has_credit(s)
    factor = writes.price(s)
    if factor <= 1.0 or s.ints[SIZE] < s.ints[CAPACITY]:
        return factor < np.inf
    victim = _next_victim(s)
    hazard.hold_alone(s, b)
    return victim >= 0 and hazard.outranks(s, _key(s, b), s.keys[victim, KEY], factor)


@step
def _admits(s: TierState, b: int) -> bool:
    """Whether a missing block may come in; marginal admission is settled by the eviction that follows."""
    return s.params[WRITE_NS] == 0.0 or _is_worth_writing(s, b)


@step
def _insert(s: TierState, b: int) -> None:
    writes.spend(s)
    s.nodes[b, WHERE] = _RESIDENT
    s.ints[SIZE] += 1
    s.keys[b, INSERTED_BY] = s.ints[REQUEST]
    parent = as_int64(s.nodes[b, PARENT])
    if parent >= 0:
        s.nodes[parent, CHILDREN] += 1
    _reorder(s, b)


@compiled
def refresh(s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int, may_insert: bool) -> None:
    """One request uses blocks ``ids[last]``, ``ids[last - stride]`` and so on down to ``lo``, in that order."""
    for i in range(last, lo - 1, -stride):
        b = as_int64(ids[i])
        s.ints[SEQUENCE] += 1
        if s.nodes[b, WHERE] == _RESIDENT:
            hazard.hold_copy(s, b)
            _reorder(s, b)
        elif may_insert and _admits(s, b):
            hazard.hold_copy(s, b)
            _insert(s, b)


@compiled
def receive(s: TierState, victims: npt.NDArray[np.int64], n: int, stores: bool) -> int:
    """The device gave up the first ``n`` of ``victims``; what is missing comes down if it ``stores``.

    Returns:
        How many came down.
    """
    n_before = s.ints[SIZE]
    for i in range(n):
        b = victims[i]
        if s.nodes[b, WHERE] == _RESIDENT:
            hazard.hold_alone(s, b)
            s.keys[b, KEY] = _key(s, b)
            if s.nodes[b, SLOT] >= 0:
                update(s, b)
        elif stores and _admits(s, b):
            s.ints[SEQUENCE] += 1
            hazard.hold_alone(s, b)
            _insert(s, b)
    return s.ints[SIZE] - n_before


@step
def _new_leaf(s: TierState, b: int) -> int:
    """The parent that may leave because a block leaves, with its key, to enter the heap; -1 if there is none."""
    parent = as_int64(s.nodes[b, PARENT])
    if parent < 0:
        return as_int64(-1)
    s.nodes[parent, CHILDREN] -= 1
    if s.nodes[parent, WHERE] != _RESIDENT or s.nodes[parent, SLOT] >= 0 or not _may_leave(s, parent):
        return as_int64(-1)
    s.keys[parent, KEY] = _key(s, parent)
    return parent


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    take_out(s, b)
    s.ints[SIZE] -= 1
    parent = _new_leaf(s, b)
    if parent >= 0:
        push(s, parent)
    s.nodes[b, WHERE] = ABSENT


@step
def _next_victim(s: TierState) -> int:
    """The block that would leave next, which then is the root of the heap; -1 if none may leave.

    Pinned blocks, and those that a resident continues, drop out of the heap when they reach its root; the use that ends
    a pin, or the last child's leaving, puts them back.
    """
    while s.ints[HEAP_SIZE] > 0:
        b = s.heap[0, HEAP_BLOCK]
        if s.nodes[b, PINS] > 0 or not _may_leave(s, b):
            take_out(s, b)
        elif not settle_root(s):
            return b
    return as_int64(-1)


@compiled
def shrink(s: TierState, reserved: int) -> int:
    """Evict until ``reserved`` blocks more would fit, or no resident may leave, or ``victims`` is full.

    Returns:
        How many blocks left; they stand in ``victims``, in order.
    """
    n = 0
    n_wanted = min(s.ints[SIZE] + reserved - s.ints[CAPACITY], s.victims.shape[0])
    while n < n_wanted:
        b = _next_victim(s)
        if b < 0:
            break
        s.ints[SIZE] -= 1
        parent = _new_leaf(s, b)
        if parent >= 0:
            replace_root(s, parent)
        else:
            take_out(s, b)
        s.nodes[b, WHERE] = ABSENT
        s.victims[n] = b
        n += 1
    return n


@compiled
def advance(s: TierState) -> None:
    """Time goes on: where another tick began, all blocks of the heap are ranked anew."""
    if not hazard.begins_tick(s):
        return
    for slot in range(s.ints[HEAP_SIZE]):
        b = s.heap[slot, HEAP_BLOCK]
        s.keys[b, KEY] = _key(s, b)
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
        s.keys[b, KEY] = _key(s, b)
        if _may_leave(s, b):
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
