"""LRU of a host beneath an LRU device, compiled: with lists apart, one LRU over both tiers.

What only the host holds stands in one list, in the order in which the device gave it up, which is the order of its last
use. Copies of what the device holds too stand in another, and leave first: nothing is lost with them. With
``params[APART]`` 0 all blocks stand in the first list, which is LRU whose order coming down renews as a use does.
``params`` is that of :mod:`autotune.core.hazard_layout`, for a tier of the learned rule is this as long as no rule is
in force.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.hazard_layout import APART
from autotune.core.state import ABSENT, CAPACITY, CHILDREN, HEAP_SIZE, N_BLOCKS, PARENT, SIZE, SLOT, WHERE, TierState
from autotune_policies.kernels import writes
from autotune_policies.kernels.jit import as_int64, compiled, step
from autotune_policies.kernels.lists import clear_lists, list_numbers, make_newest, oldest, push_newest, unlink

_ALONE, _COPIES = list_numbers(2)
_IS_ALONE, _IS_COPY = 1, 2  # values of WHERE


@step
def _become(s: TierState, b: int, is_copy: bool) -> None:
    """A block that is in no list stands at the newest end of one."""
    if is_copy and s.params[APART] > 0.0:
        s.nodes[b, WHERE] = _IS_COPY
        push_newest(s, _COPIES, b)
    else:
        s.nodes[b, WHERE] = _IS_ALONE
        push_newest(s, _ALONE, b)


@step
def _leave_list(s: TierState, b: int) -> None:
    if s.nodes[b, WHERE] == _IS_COPY:
        unlink(s, _COPIES, b)
    else:
        unlink(s, _ALONE, b)


@step
def _count_child(s: TierState, b: int, n: int) -> None:
    parent = as_int64(s.nodes[b, PARENT])
    if parent >= 0:
        s.nodes[parent, CHILDREN] += n


@step
def _admits(s: TierState, b: int) -> bool:
    """Whether the write budget, if there is one, allows a missing block; on credit if a resident continues it."""
    if s.nodes[b, CHILDREN] > 0:
        return writes.has_credit(s)
    return writes.price(s) < np.inf


@step
def _insert(s: TierState, b: int, is_copy: bool) -> None:
    writes.spend(s)
    s.ints[SIZE] += 1
    _count_child(s, b, 1)
    _become(s, b, is_copy)


@compiled
def receive(s: TierState, victims: npt.NDArray[np.int64], n: int, stores: bool) -> int:
    """The device gave up blocks: the first ``n`` of ``victims``; what is missing comes down if it ``stores``.

    Returns:
        How many came down.
    """
    n_before = s.ints[SIZE]
    for i in range(n):
        b = victims[i]
        if s.nodes[b, WHERE] == _IS_COPY:
            unlink(s, _COPIES, b)
            _become(s, b, False)
        elif stores and s.nodes[b, WHERE] == ABSENT and _admits(s, b):
            _insert(s, b, False)
    return s.ints[SIZE] - n_before


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    _leave_list(s, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1
    _count_child(s, b, -1)


@compiled
def refresh(s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int, may_insert: bool) -> None:
    """One request uses blocks ``ids[last]``, ``ids[last - stride]`` and so on down to ``lo``, in that order."""
    apart = s.params[APART] > 0.0
    for i in range(last, lo - 1, -stride):
        b = as_int64(ids[i])
        where = s.nodes[b, WHERE]
        if where == ABSENT:
            if may_insert and _admits(s, b):
                _insert(s, b, True)
        elif not apart:
            make_newest(s, _ALONE, b)
        elif where == _IS_ALONE:
            unlink(s, _ALONE, b)
            _become(s, b, True)


@compiled
def shrink(s: TierState, reserved: int) -> int:
    """Evict until ``reserved`` blocks more would fit, or ``victims`` is full; requests pin nothing on a host.

    Returns:
        How many blocks left; they stand in ``victims``, in order.
    """
    n_wanted = min(s.ints[SIZE] + reserved - s.ints[CAPACITY], s.victims.shape[0])
    n = 0
    while n < n_wanted:
        b = oldest(s, _COPIES)
        if b >= s.ints[N_BLOCKS]:
            b = oldest(s, _ALONE)
        remove(s, b)
        s.victims[n] = b
        n += 1
    return n


@compiled
def line_up(s: TierState, residents: npt.NDArray[np.int64], is_copy: npt.NDArray[np.uint8]) -> None:
    """A tier that was ranked is LRU from now on.

    Args:
        s: State of the tier.
        residents: ``(SIZE,)`` its blocks, the one that was used longest ago first.
        is_copy: ``(SIZE,)`` whether the device holds each too.
    """
    clear_lists(s)
    s.ints[HEAP_SIZE] = 0
    for i in range(residents.shape[0]):
        b = residents[i]
        s.nodes[b, SLOT] = -1
        _become(s, b, is_copy[i] > 0)
