"""SIEVE, compiled; the plain form in ``recency/sieve.py`` tells what it does.

Blocks that were inserted into a full tier wait in a list of their own until an eviction makes room (``room_first.py``).
``ints[HAND]`` is the hand's row + 1, 0 while it stands nowhere.
"""

from __future__ import annotations

from autotune.core.state import ABSENT, CAPACITY, HAND, N_BLOCKS, PINS, PREV, SIZE, WHERE, TierState
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import list_numbers, oldest, push_newest, size, unlink
from autotune_policies.kernels.per_block import refresh_with, shrink_with

_QUEUE, _LINE = list_numbers(2)  # lists
_UNUSED, _USED, _WAITING = 1, 2, 3  # values of WHERE


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    if s.nodes[b, WHERE] == _WAITING:
        _join_all(s)
    s.nodes[b, WHERE] = _USED


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    s.ints[SIZE] += 1
    if size(s, _QUEUE) < s.ints[CAPACITY]:
        _join(s, b)
    else:
        push_newest(s, _LINE, b)
        s.nodes[b, WHERE] = _WAITING


@compiled
def use(s: TierState, b: int, may_insert: bool) -> None:
    """A block was asked for; it comes in if it is missing and may."""
    if s.nodes[b, WHERE] != ABSENT:
        touch(s, b)
    elif may_insert:
        insert(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    if s.nodes[b, WHERE] == _WAITING:
        unlink(s, _LINE, b)
        s.nodes[b, WHERE] = ABSENT
    else:
        _drop(s, b)
    s.ints[SIZE] -= 1
    _join_where_room(s)


@compiled
def evict(s: TierState) -> int:
    """The hand's victim leaves; -1 if all residents are pinned."""
    b = _make_room(s)
    if b < 0 and size(s, _LINE) > 0:
        _join_all(s)
        b = _make_room(s)
    if b >= 0:
        s.ints[SIZE] -= 1
    _join_where_room(s)
    return b


refresh = refresh_with(use)
shrink = shrink_with(evict)


@compiled
def _join(s: TierState, b: int) -> None:
    push_newest(s, _QUEUE, b)
    s.nodes[b, WHERE] = _UNUSED


@compiled
def _join_first(s: TierState) -> None:
    b = oldest(s, _LINE)
    unlink(s, _LINE, b)
    _join(s, b)


@compiled
def _join_where_room(s: TierState) -> None:
    while size(s, _LINE) > 0 and size(s, _QUEUE) < s.ints[CAPACITY]:
        _join_first(s)


@compiled
def _join_all(s: TierState) -> None:
    while size(s, _LINE) > 0:
        _join_first(s)


@compiled
def _newer(s: TierState, b: int) -> int:
    newer = as_int64(s.nodes[b, PREV])
    return newer if newer < s.ints[N_BLOCKS] else as_int64(-1)


@compiled
def _make_room(s: TierState) -> int:
    b = s.ints[HAND] - 1
    for _ in range(2 * size(s, _QUEUE)):
        if b < 0:
            b = oldest(s, _QUEUE)
        if s.nodes[b, WHERE] == _USED:
            s.nodes[b, WHERE] = _UNUSED
        elif s.nodes[b, PINS] == 0:
            s.ints[HAND] = b + 1
            _drop(s, b)
            return b
        b = _newer(s, b)
    return -1


@compiled
def _drop(s: TierState, b: int) -> None:
    if s.ints[HAND] == b + 1:
        s.ints[HAND] = _newer(s, b) + 1
    unlink(s, _QUEUE, b)
    s.nodes[b, WHERE] = ABSENT
