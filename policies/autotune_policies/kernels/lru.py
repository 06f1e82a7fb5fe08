"""LRU, compiled: one list, evict its oldest. FIFO is the same but for uses, which move nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.state import ABSENT, CAPACITY, LIST_SIZES, N_BLOCKS, NEXT, PINS, PREV, SIZE, WHERE, TierState
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import list_numbers, push_newest, unlink

_RESIDENT = 1
(_QUEUE,) = list_numbers(1)


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    push_newest(s, _QUEUE, b)
    s.nodes[b, WHERE] = _RESIDENT
    s.ints[SIZE] += 1


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    unlink(s, _QUEUE, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1


@compiled
def refresh(s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int, may_insert: bool) -> None:
    """One request uses blocks ``ids[last]``, ``ids[last - stride]`` and so on down to ``lo``, in that order.

    Blocks that lie in the list as the request names them, which is how the request before left them, move as one piece.
    """
    nodes = s.nodes
    head = s.ints[N_BLOCKS]
    newest = as_int64(
        nodes[head, NEXT]
    )  # the head learns of it at the end; the newest block points to the head throughout
    n_inserted = 0
    i = last
    while i >= lo:
        b = as_int64(ids[i])
        i -= stride
        if nodes[b, WHERE] == ABSENT:
            if may_insert:
                nodes[b, WHERE] = _RESIDENT
                nodes[b, PREV] = head
                nodes[b, NEXT] = newest
                nodes[newest, PREV] = b
                newest = b
                n_inserted += 1
            continue
        first, newer = b, as_int64(nodes[b, PREV])
        while i >= lo and ids[i] == newer:
            first, newer = newer, as_int64(nodes[newer, PREV])
            i -= stride
        if newer == head:
            continue
        older = nodes[b, NEXT]
        nodes[newer, NEXT] = older
        nodes[older, PREV] = newer
        nodes[first, PREV] = head
        nodes[b, NEXT] = newest
        nodes[newest, PREV] = b
        newest = first
    nodes[head, NEXT] = newest
    s.ints[LIST_SIZES] += n_inserted
    s.ints[SIZE] += n_inserted


@compiled
def insert_missing(s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int) -> None:
    """The same under FIFO: residents stay where they are."""
    for i in range(last, lo - 1, -stride):
        b = as_int64(ids[i])
        if s.nodes[b, WHERE] == ABSENT:
            insert(s, b)


@compiled
def shrink(s: TierState, reserved: int) -> int:
    """Evict until ``reserved`` blocks more would fit, or all residents are pinned, or ``victims`` is full.

    Returns:
        How many blocks left; they stand in ``victims``, in order.
    """
    nodes, victims = s.nodes, s.victims
    head = s.ints[N_BLOCKS]
    n_wanted = min(s.ints[SIZE] + reserved - s.ints[CAPACITY], victims.shape[0])
    if n_wanted <= 0:
        return 0
    n = 0
    kept = head  # the pinned block that was passed last
    b = as_int64(nodes[head, PREV])
    while n < n_wanted and b != head:
        if nodes[b, PINS] == 0:
            nodes[b, WHERE] = ABSENT
            victims[n] = b
            n += 1
        else:
            nodes[b, NEXT] = kept
            nodes[kept, PREV] = b
            kept = b
        b = as_int64(nodes[b, PREV])
    nodes[b, NEXT] = kept
    nodes[kept, PREV] = b
    s.ints[LIST_SIZES] -= n
    s.ints[SIZE] -= n
    return n
