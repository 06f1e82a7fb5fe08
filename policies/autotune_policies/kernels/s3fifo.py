"""S3-FIFO, compiled; the plain form in ``recency/s3fifo.py`` tells what it does.

Blocks that were inserted into a full tier wait in a list of their own until an eviction makes room (``room_first.py``).
``params``: share of the small queue, ghosts per block of capacity, uses that promote. ``ints[FLAG]``: whether anything
was evicted yet.
"""

from __future__ import annotations

from autotune.core.state import ABSENT, CAPACITY, FLAG, GHOST, N_BLOCKS, PINS, PREV, SIZE, SLOT, WHERE, TierState
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import list_numbers, make_newest, oldest, push_newest, size, unlink
from autotune_policies.kernels.per_block import refresh_with, shrink_with

_SMALL, _MAIN, _GHOSTS, _LINE = list_numbers(4)  # lists
_IN_SMALL, _IN_MAIN, _WAITING, _WAITING_GHOST = 1, 2, 3, 4  # values of WHERE
_SMALL_FRAC, _GHOST_FRAC, _PROMOTE_USES = 0, 1, 2  # params
_USES = SLOT  # the heap's column, free in a policy without a heap
_MOST_LIVES = 3


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    if s.nodes[b, WHERE] >= _WAITING:
        _join_all(s)
    s.nodes[b, _USES] += 1


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    s.ints[SIZE] += 1
    is_ghost = s.nodes[b, WHERE] == GHOST
    if is_ghost:
        unlink(s, _GHOSTS, b)
    if _queued(s) < s.ints[CAPACITY]:
        _join(s, b, is_ghost)
    else:
        push_newest(s, _LINE, b)
        s.nodes[b, WHERE] = _WAITING_GHOST if is_ghost else _WAITING


@compiled
def use(s: TierState, b: int, may_insert: bool) -> None:
    """A block was asked for; it comes in if it is missing and may."""
    if 0 < s.nodes[b, WHERE] < GHOST:
        touch(s, b)
    elif may_insert:
        insert(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space; it leaves no ghost."""
    where = s.nodes[b, WHERE]
    unlink(s, _LINE if where >= _WAITING else where - _IN_SMALL, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1
    _join_where_room(s)


@compiled
def evict(s: TierState) -> int:
    """A block of the small or the main queue leaves; -1 if all residents are pinned."""
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
def _queued(s: TierState) -> int:
    return size(s, _SMALL) + size(s, _MAIN)


@compiled
def _small_blocks(s: TierState) -> int:
    return max(1, int(s.ints[CAPACITY] * s.params[_SMALL_FRAC]))


@compiled
def _join(s: TierState, b: int, is_ghost: bool) -> None:
    small_is_full = size(s, _SMALL) >= _small_blocks(s)
    to_main = is_ghost or (small_is_full and s.ints[FLAG] == 0)
    push_newest(s, _MAIN if to_main else _SMALL, b)
    s.nodes[b, WHERE] = _IN_MAIN if to_main else _IN_SMALL
    s.nodes[b, _USES] = 0


@compiled
def _join_first(s: TierState) -> None:
    b = oldest(s, _LINE)
    unlink(s, _LINE, b)
    _join(s, b, s.nodes[b, WHERE] == _WAITING_GHOST)


@compiled
def _join_where_room(s: TierState) -> None:
    while size(s, _LINE) > 0 and _queued(s) < s.ints[CAPACITY]:
        _join_first(s)


@compiled
def _join_all(s: TierState) -> None:
    while size(s, _LINE) > 0:
        _join_first(s)


@compiled
def _make_room(s: TierState) -> int:
    s.ints[FLAG] = 1
    b = -1
    if size(s, _MAIN) <= s.ints[CAPACITY] - _small_blocks(s):
        b = _evict_small(s)
    if b < 0:
        b = _evict_main(s)
    if b < 0:
        b = _evict_small(s)
    if b < 0:
        b = _evict_main(s)
    return b


@compiled
def _evict_small(s: TierState) -> int:
    b = oldest(s, _SMALL)
    while b < s.ints[N_BLOCKS]:
        newer = as_int64(s.nodes[b, PREV])
        if s.nodes[b, _USES] >= s.params[_PROMOTE_USES]:
            unlink(s, _SMALL, b)
            push_newest(s, _MAIN, b)
            s.nodes[b, WHERE] = _IN_MAIN
            s.nodes[b, _USES] = 0
        elif s.nodes[b, PINS] == 0:
            unlink(s, _SMALL, b)
            _remember(s, b)
            return b
        b = newer
    return -1


@compiled
def _evict_main(s: TierState) -> int:
    b = oldest(s, _MAIN)
    while b < s.ints[N_BLOCKS]:
        newer = as_int64(s.nodes[b, PREV])
        if s.nodes[b, _USES] > 0:
            s.nodes[b, _USES] = min(s.nodes[b, _USES], _MOST_LIVES) - 1
            make_newest(s, _MAIN, b)
            if newer >= s.ints[N_BLOCKS]:  # it was the newest before, too: it is next in turn again
                newer = b
        elif s.nodes[b, PINS] == 0:
            unlink(s, _MAIN, b)
            s.nodes[b, WHERE] = ABSENT
            return b
        b = newer
    return -1


@compiled
def _remember(s: TierState, b: int) -> None:
    limit = int(s.ints[CAPACITY] * s.params[_GHOST_FRAC])
    if limit == 0:
        s.nodes[b, WHERE] = ABSENT
        return
    if size(s, _GHOSTS) >= limit:
        forgotten = oldest(s, _GHOSTS)
        unlink(s, _GHOSTS, forgotten)
        s.nodes[forgotten, WHERE] = ABSENT
    push_newest(s, _GHOSTS, b)
    s.nodes[b, WHERE] = GHOST
