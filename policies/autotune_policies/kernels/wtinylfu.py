"""W-TinyLFU, compiled; the plain form in ``frequency/tinylfu.py`` tells what it does.

``params``: share of the window, share of the main cache that is protected, accesses per block of capacity between two
halvings. ``sketch`` must hold ``ROWS * sketch_width(capacity)`` counters; ``ints[SCRATCH]`` counts accesses.
"""

from __future__ import annotations

from autotune.core.decide import sketch as _sketch
from autotune.core.state import ABSENT, CAPACITY, SCRATCH, SIZE, WHERE, TierState
from autotune_policies.kernels.jit import compiled
from autotune_policies.kernels.lists import list_numbers, make_newest, oldest, oldest_idle, push_newest, size, unlink
from autotune_policies.kernels.per_block import refresh_with, shrink_with

_WINDOW, _PROBATION, _PROTECTED = list_numbers(3)  # lists; WHERE is one more
_WINDOW_FRAC, _PROTECTED_FRAC, _SAMPLE_FACTOR = 0, 1, 2  # params
_ACCESSES = SCRATCH
_ROWS = _sketch.ROWS
_MAX_COUNT = _sketch.MAX_COUNT

_hash = compiled(_sketch.sketch_hash)
_slot = compiled(_sketch.sketch_slot)


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    _count(s, b)
    queue = s.nodes[b, WHERE] - 1
    if queue != _PROBATION:
        make_newest(s, queue, b)
        return
    _move(s, b, _PROTECTED)
    while size(s, _PROTECTED) > _protected_blocks(s):
        _move(s, oldest(s, _PROTECTED), _PROBATION)


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    _count(s, b)
    demote(s, b)


@compiled
def demote(s: TierState, b: int) -> None:
    """A block came down from a nearer tier; that is no use of it."""
    push_newest(s, _WINDOW, b)
    s.nodes[b, WHERE] = _WINDOW + 1
    s.ints[SIZE] += 1


@compiled
def use(s: TierState, b: int, may_insert: bool) -> None:
    """A block was asked for; it comes in if it is missing and may."""
    if s.nodes[b, WHERE] != ABSENT:
        touch(s, b)
    elif may_insert:
        insert(s, b)
    else:
        _count(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    unlink(s, s.nodes[b, WHERE] - 1, b)
    s.nodes[b, WHERE] = ABSENT
    s.ints[SIZE] -= 1


@compiled
def evict(s: TierState) -> int:
    """The loser of the duel between window and main cache leaves; -1 if all residents are pinned."""
    _fill_main(s)
    victim = oldest_idle(s, _PROBATION)
    if victim < 0:
        victim = oldest_idle(s, _PROTECTED)
    candidate = oldest_idle(s, _WINDOW) if size(s, _WINDOW) > _window_blocks(s) else -1
    if candidate >= 0 and victim >= 0 and _estimate(s, candidate) > _estimate(s, victim):
        remove(s, victim)
        _move(s, candidate, _PROBATION)
        return victim
    leaver = candidate if candidate >= 0 else victim
    if leaver < 0:
        leaver = oldest_idle(s, _WINDOW)
    if leaver >= 0:
        remove(s, leaver)
    return leaver


refresh = refresh_with(use)
shrink = shrink_with(evict)


@compiled
def _window_blocks(s: TierState) -> int:
    return max(1, int(s.ints[CAPACITY] * s.params[_WINDOW_FRAC]))


@compiled
def _main_blocks(s: TierState) -> int:
    return s.ints[CAPACITY] - _window_blocks(s)


@compiled
def _protected_blocks(s: TierState) -> int:
    return int(_main_blocks(s) * s.params[_PROTECTED_FRAC])


@compiled
def _move(s: TierState, b: int, queue: int) -> None:
    unlink(s, s.nodes[b, WHERE] - 1, b)
    push_newest(s, queue, b)
    s.nodes[b, WHERE] = queue + 1


@compiled
def _fill_main(s: TierState) -> None:
    while size(s, _WINDOW) > _window_blocks(s) and size(s, _PROBATION) + size(s, _PROTECTED) < _main_blocks(s):
        _move(s, oldest(s, _WINDOW), _PROBATION)


@compiled
def _count(s: TierState, b: int) -> None:
    mixed = _hash(b)
    width = s.sketch.shape[0] // _ROWS
    for row in range(_ROWS):
        slot = _slot(mixed, row, width)
        if s.sketch[slot] < _MAX_COUNT:
            s.sketch[slot] += 1
    s.ints[_ACCESSES] += 1
    if s.ints[_ACCESSES] >= max(1, int(s.ints[CAPACITY] * s.params[_SAMPLE_FACTOR])):
        _halve(s)


@compiled
def _halve(s: TierState) -> None:
    for slot in range(s.sketch.shape[0]):
        s.sketch[slot] >>= 1
    s.ints[_ACCESSES] //= 2


@compiled
def _estimate(s: TierState, b: int) -> int:
    mixed = _hash(b)
    width = s.sketch.shape[0] // _ROWS
    least = _MAX_COUNT
    for row in range(_ROWS):
        least = min(least, int(s.sketch[_slot(mixed, row, width)]))
    return least
