"""LRU behind two-hit admission, compiled; the plain form in ``admission/two_hit.py`` tells what it does.

``params``: threshold, blocks in the tracker. The tracker is a second list through residents and others alike, so it
has links of its own. Its counts stop at the threshold, beyond which they make no difference, and live in WHERE:
1 + count for a resident, GHOST + count for a tracked block that is not resident.
"""

from __future__ import annotations

from autotune.core.state import (
    ABSENT,
    CHILDREN,
    GHOST,
    LIST_SIZES,
    N_BLOCKS,
    SIZE,
    SLOT,
    WHERE,
    TierState,
)
from autotune_policies.kernels.jit import as_int64, compiled
from autotune_policies.kernels.lists import list_numbers, make_newest, oldest_idle, push_newest, unlink
from autotune_policies.kernels.per_block import refresh_with, shrink_with

_QUEUE, _TRACKER = list_numbers(2)  # lists
_THRESHOLD, _TRACKER_BLOCKS = 0, 1  # params
_RESIDENT = 1
_NEWER, _OLDER = CHILDREN, SLOT  # links of the tracker: columns that only ranking policies use


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    _count(s, b)
    make_newest(s, _QUEUE, b)


@compiled
def admits_demoted(s: TierState, b: int) -> bool:
    """Whether a missing block that a nearer tier evicts may come in; that is no use of it."""
    return _accesses(s, b) >= s.params[_THRESHOLD]


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    _count(s, b)
    demote(s, b)


@compiled
def demote(s: TierState, b: int) -> None:
    """A missing block became resident because a nearer tier evicted it."""
    s.nodes[b, WHERE] = _RESIDENT + _accesses(s, b)
    push_newest(s, _QUEUE, b)
    s.ints[SIZE] += 1


@compiled
def use(s: TierState, b: int, may_insert: bool) -> None:
    """A block was asked for; it comes in if it is missing and may."""
    if 0 < s.nodes[b, WHERE] < GHOST:
        touch(s, b)
    elif may_insert and _accesses(s, b) + 1 >= s.params[_THRESHOLD]:
        insert(s, b)
    else:
        _count(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space; it stays in the tracker."""
    unlink(s, _QUEUE, b)
    accesses = _accesses(s, b)
    s.nodes[b, WHERE] = GHOST + accesses if accesses > 0 else ABSENT
    s.ints[SIZE] -= 1


@compiled
def evict(s: TierState) -> int:
    """The least recently used block that is not pinned leaves; -1 if there is none."""
    b = oldest_idle(s, _QUEUE)
    if b >= 0:
        remove(s, b)
    return b


refresh = refresh_with(use)
shrink = shrink_with(evict)


@compiled
def _accesses(s: TierState, b: int) -> int:
    where = s.nodes[b, WHERE]
    if where == ABSENT:
        return 0
    return where - (GHOST if where >= GHOST else _RESIDENT)


@compiled
def _count(s: TierState, b: int) -> None:
    """One more access, which makes the block the newest of the tracker."""
    accesses = _accesses(s, b)
    if accesses > 0:
        _untrack(s, b)
    elif s.ints[LIST_SIZES + _TRACKER] >= s.params[_TRACKER_BLOCKS]:
        _forget_oldest(s)
    _track(s, b)
    if accesses < s.params[_THRESHOLD]:
        s.nodes[b, WHERE] = GHOST + 1 if s.nodes[b, WHERE] == ABSENT else s.nodes[b, WHERE] + 1


@compiled
def _forget_oldest(s: TierState) -> None:
    b = as_int64(s.nodes[s.ints[N_BLOCKS] + _TRACKER, _NEWER])
    _untrack(s, b)
    s.nodes[b, WHERE] = ABSENT if s.nodes[b, WHERE] >= GHOST else _RESIDENT


@compiled
def _track(s: TierState, b: int) -> None:
    head = s.ints[N_BLOCKS] + _TRACKER
    if s.ints[LIST_SIZES + _TRACKER] == 0:
        s.nodes[head, _NEWER] = head
        s.nodes[head, _OLDER] = head
    newest = s.nodes[head, _OLDER]
    s.nodes[b, _NEWER] = head
    s.nodes[b, _OLDER] = newest
    s.nodes[newest, _NEWER] = b
    s.nodes[head, _OLDER] = b
    s.ints[LIST_SIZES + _TRACKER] += 1


@compiled
def _untrack(s: TierState, b: int) -> None:
    newer, older = s.nodes[b, _NEWER], s.nodes[b, _OLDER]
    s.nodes[newer, _OLDER] = older
    s.nodes[older, _NEWER] = newer
    s.ints[LIST_SIZES + _TRACKER] -= 1
