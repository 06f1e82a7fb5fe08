"""ARC, compiled; the plain form in ``adaptive/arc.py`` tells what it does.

Blocks that were inserted into a full tier wait in a list of their own until an eviction makes room (``room_first.py``).
``floats[0]`` is the target size of T1, the paper's p.
"""

from __future__ import annotations

from autotune.core.state import ABSENT, CAPACITY, GHOST, SIZE, WHERE, TierState
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import list_numbers, make_newest, oldest, oldest_idle, push_newest, size, unlink
from autotune_policies.kernels.per_block import refresh_with, shrink_with

_ONCE, _OFTEN, _ONCE_GHOSTS, _OFTEN_GHOSTS, _LINE = list_numbers(5)  # lists
_TARGET = 0  # floats

# Values of WHERE: in T1, in T2; waiting, and then in which ghost list the block was found; in B1, in B2.
_IN_ONCE, _IN_OFTEN = 1, 2
_WAITING_NEW, _WAITING_ONCE, _WAITING_OFTEN = as_int64(3), as_int64(4), as_int64(5)
_ONCE_GHOST, _OFTEN_GHOST = GHOST, GHOST + 1


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    if s.nodes[b, WHERE] >= _WAITING_NEW:
        _join_all(s)
    if s.nodes[b, WHERE] == _IN_ONCE:
        unlink(s, _ONCE, b)
        push_newest(s, _OFTEN, b)
        s.nodes[b, WHERE] = _IN_OFTEN
    else:
        make_newest(s, _OFTEN, b)


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    s.ints[SIZE] += 1
    s.nodes[b, WHERE] = _recall(s, b)
    if _queued(s) < s.ints[CAPACITY]:
        _join(s, b)
    else:
        push_newest(s, _LINE, b)


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
    unlink(s, _LINE if where >= _WAITING_NEW else where - _IN_ONCE, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1
    _join_where_room(s)


@compiled
def evict(s: TierState) -> int:
    """A block of T1 or T2 leaves; -1 if all residents are pinned."""
    origin = s.nodes[oldest(s, _LINE), WHERE] if size(s, _LINE) > 0 else _WAITING_NEW
    b = _make_room(s, origin)
    if b < 0 and size(s, _LINE) > 0:
        _join_all(s)
        b = _make_room(s, _WAITING_NEW)
    if b >= 0:
        s.ints[SIZE] -= 1
    _join_where_room(s)
    return b


refresh = refresh_with(use)
shrink = shrink_with(evict)


@compiled
def _queued(s: TierState) -> int:
    return size(s, _ONCE) + size(s, _OFTEN)


@compiled
def _recall(s: TierState, b: int) -> int:
    """Adapt the target if the block is a ghost, which it is no longer; where it comes from."""
    n_once, n_often = size(s, _ONCE_GHOSTS), size(s, _OFTEN_GHOSTS)
    if s.nodes[b, WHERE] == _ONCE_GHOST:
        s.floats[_TARGET] = min(s.floats[_TARGET] + max(n_often / n_once, 1.0), float(s.ints[CAPACITY]))
        unlink(s, _ONCE_GHOSTS, b)
        return _WAITING_ONCE
    if s.nodes[b, WHERE] == _OFTEN_GHOST:
        s.floats[_TARGET] = max(s.floats[_TARGET] - max(n_once / n_often, 1.0), 0.0)
        unlink(s, _OFTEN_GHOSTS, b)
        return _WAITING_OFTEN
    return _WAITING_NEW


@compiled
def _join(s: TierState, b: int) -> None:
    if s.nodes[b, WHERE] == _WAITING_NEW:
        push_newest(s, _ONCE, b)
        s.nodes[b, WHERE] = _IN_ONCE
    else:
        push_newest(s, _OFTEN, b)
        s.nodes[b, WHERE] = _IN_OFTEN


@compiled
def _join_first(s: TierState) -> None:
    b = oldest(s, _LINE)
    unlink(s, _LINE, b)
    _join(s, b)


@compiled
def _join_where_room(s: TierState) -> None:
    while size(s, _LINE) > 0 and _queued(s) < s.ints[CAPACITY]:
        _join_first(s)


@compiled
def _join_all(s: TierState) -> None:
    while size(s, _LINE) > 0:
        _join_first(s)


@compiled
def _make_room(s: TierState, origin: int) -> int:
    if origin != _WAITING_NEW:
        return _replace(s, origin)
    capacity = s.ints[CAPACITY]
    if size(s, _ONCE) + size(s, _ONCE_GHOSTS) >= capacity:
        if size(s, _ONCE_GHOSTS) == 0:
            return _evict_without_ghost(s)
        while size(s, _ONCE_GHOSTS) > 0 and size(s, _ONCE) + size(s, _ONCE_GHOSTS) >= capacity:
            _forget_oldest(s, _ONCE_GHOSTS)
    else:
        while size(s, _OFTEN_GHOSTS) > 0 and _known(s) >= 2 * capacity:
            _forget_oldest(s, _OFTEN_GHOSTS)
    return _replace(s, _WAITING_NEW)


@compiled
def _known(s: TierState) -> int:
    return _queued(s) + size(s, _ONCE_GHOSTS) + size(s, _OFTEN_GHOSTS)


@compiled
def _forget_oldest(s: TierState, ghosts: int) -> None:
    b = oldest(s, ghosts)
    unlink(s, ghosts, b)
    s.nodes[b, WHERE] = ABSENT


@compiled
def _replace(s: TierState, origin: int) -> int:
    """The paper's REPLACE."""
    n_once = size(s, _ONCE)
    target = s.floats[_TARGET]
    over_target = n_once > target or (n_once == target and origin == _WAITING_OFTEN)
    first = _ONCE if (n_once > 0 and over_target) or size(s, _OFTEN) == 0 else _OFTEN
    b = _evict_from(s, first)
    if b < 0:
        b = _evict_from(s, _OFTEN if first == _ONCE else _ONCE)
    return b


@compiled
def _evict_from(s: TierState, queue: int) -> int:
    b = oldest_idle(s, queue)
    if b >= 0:
        unlink(s, queue, b)
        push_newest(s, _ONCE_GHOSTS if queue == _ONCE else _OFTEN_GHOSTS, b)
        s.nodes[b, WHERE] = _ONCE_GHOST if queue == _ONCE else _OFTEN_GHOST
    return b


@compiled
def _evict_without_ghost(s: TierState) -> int:
    b = oldest_idle(s, _ONCE)
    if b < 0:
        return _replace(s, _WAITING_NEW)
    unlink(s, _ONCE, b)
    s.nodes[b, WHERE] = ABSENT
    return b
