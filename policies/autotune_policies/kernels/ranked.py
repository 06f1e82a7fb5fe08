"""All policies that evict the smallest key, compiled: rank rule, LFU, LRFU, GDSF and the clairvoyant bounds.

They differ in the key only; statistics, ghosts, the heap and the leaf rule are common.
``params``: weight_ns, half_life_s, ghost entries, admission code (0 all, 1 marginal, 2 two-hit).
"""

from __future__ import annotations

from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    ABSENT,
    CHILDREN,
    DEPTH,
    GHOST,
    HEAP_SIZE,
    INSERTED_BY,
    KEY,
    KEY_SEQUENCE,
    KIND,
    LAST_NS,
    NEWCOMERS,
    NEXT_USE,
    NOW_NS,
    PARENT,
    PINS,
    REQUEST,
    SCRATCH,
    SEQUENCE,
    SIZE,
    SLOT,
    WHERE,
    TierState,
)
from autotune_policies.kernels.decide import decayed_frequency, gdsf_key, next_use_key, rank_ns, seconds_density_key
from autotune_policies.kernels.heap import push, settle_root, take_out, update
from autotune_policies.kernels.jit import compiled
from autotune_policies.kernels.lists import oldest, push_newest, size, unlink

_RESIDENT = 1
_GHOSTS = 0
_WEIGHT_NS, _HALF_LIFE_S, _GHOST_BLOCKS, _ADMISSION = range(4)
_INFLATION = SCRATCH  # ints: GDSF's aging term


@compiled
def _leaf_only(s: TierState) -> bool:
    kind = s.ints[KIND]
    return kind == codes.RANK or kind == codes.CLAIRVOYANT or kind == codes.CLAIRVOYANT_SECONDS


@compiled
def _evictable(s: TierState, b: int) -> bool:
    return s.nodes[b, CHILDREN] == 0 or not _leaf_only(s)


@compiled
def _count(s: TierState, b: int) -> None:
    """One more access: the remembered frequency decays to now, then this access counts 1."""
    now_ns = s.ints[NOW_NS]
    frequency = 0.0
    if s.nodes[b, WHERE] != ABSENT:
        elapsed_s = (now_ns - s.keys[b, LAST_NS]) / 1e9
        frequency = decayed_frequency(s.counts[b], elapsed_s, s.params[_HALF_LIFE_S])
    s.counts[b] = frequency + 1.0
    s.keys[b, LAST_NS] = now_ns


@compiled
def _rekey(s: TierState, b: int) -> None:
    kind = s.ints[KIND]
    term = s.terms[min(s.nodes[b, DEPTH], s.terms.shape[0] - 1)]
    if kind == codes.RANK or kind == codes.LRFU:
        key = rank_ns(s.ints[NOW_NS], s.params[_WEIGHT_NS], s.counts[b], term)
    elif kind == codes.CLAIRVOYANT:
        key = next_use_key(s.ints[NEXT_USE])
    elif kind == codes.CLAIRVOYANT_SECONDS:
        key = seconds_density_key(term, s.ints[REQUEST], s.ints[NEXT_USE])
    elif kind == codes.GDSF:
        key = gdsf_key(s.ints[_INFLATION], s.counts[b], term)
    else:
        key = int(s.counts[b])
    s.keys[b, KEY] = key
    s.keys[b, KEY_SEQUENCE] = s.ints[SEQUENCE]


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    _count(s, b)
    _rekey(s, b)
    if s.nodes[b, SLOT] >= 0:
        update(s, b)
    elif _evictable(s, b):
        push(s, b)


@compiled
def admits(s: TierState, b: int) -> bool:
    """Whether a missing block may become resident; marginal admission is settled by the eviction that follows."""
    return s.params[_ADMISSION] != 2.0 or s.nodes[b, WHERE] == GHOST


@compiled
def admits_demoted(s: TierState, b: int) -> bool:
    """Under two-hit admission, a block that comes down must have been used twice, for coming down is no use."""
    return s.params[_ADMISSION] != 2.0 or (s.nodes[b, WHERE] == GHOST and s.counts[b] > 1.0)


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident; a ghost takes its statistics back."""
    _count(s, b)
    _settle_in(s, b)


@compiled
def demote(s: TierState, b: int) -> None:
    """A block came down from a nearer tier: no use of it, so its frequency stays what it was."""
    if s.nodes[b, WHERE] == ABSENT:
        s.counts[b] = 1.0
        s.keys[b, LAST_NS] = s.ints[NOW_NS]
    _settle_in(s, b)


@compiled
def _settle_in(s: TierState, b: int) -> None:
    if s.nodes[b, WHERE] == GHOST:
        unlink(s, _GHOSTS, b)
    s.nodes[b, WHERE] = _RESIDENT
    s.ints[SIZE] += 1
    s.ints[NEWCOMERS] += 1
    s.keys[b, INSERTED_BY] = s.ints[REQUEST]
    parent = s.nodes[b, PARENT]
    if parent >= 0:
        s.nodes[parent, CHILDREN] += 1
    _rekey(s, b)
    if _evictable(s, b):
        push(s, b)


@compiled
def refuse(s: TierState, b: int) -> None:
    """A block that stays out was asked for: it counts as an access of its ghost."""
    if s.params[_GHOST_BLOCKS] < 1.0:
        return
    _count(s, b)
    if s.nodes[b, WHERE] == GHOST:
        unlink(s, _GHOSTS, b)
    _become_ghost(s, b)


@compiled
def _become_ghost(s: TierState, b: int) -> None:
    limit = s.params[_GHOST_BLOCKS]
    if limit < 1.0:
        s.nodes[b, WHERE] = ABSENT
        return
    if size(s, _GHOSTS) >= limit:
        forgotten = oldest(s, _GHOSTS)
        unlink(s, _GHOSTS, forgotten)
        s.nodes[forgotten, WHERE] = ABSENT
    push_newest(s, _GHOSTS, b)
    s.nodes[b, WHERE] = GHOST


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left; its statistics stay as a ghost, and its parent may have become a leaf."""
    take_out(s, b)
    s.ints[SIZE] -= 1
    parent = s.nodes[b, PARENT]
    if parent >= 0:
        s.nodes[parent, CHILDREN] -= 1
        if s.nodes[parent, WHERE] == _RESIDENT and s.nodes[parent, SLOT] < 0 and _evictable(s, parent):
            push(s, parent)
    _become_ghost(s, b)


@compiled
def evict(s: TierState) -> int:
    """The evictable block with the smallest key leaves; -1 if there is none.

    Pinned blocks and blocks with resident children drop out of the heap when they reach its root; the touch that ends
    a pin, or the last child's leaving, puts them back.
    """
    while s.ints[HEAP_SIZE] > 0:
        b = s.heap[0]
        if s.nodes[b, PINS] > 0 or not _evictable(s, b):
            take_out(s, b)
        elif not settle_root(s):
            if s.ints[KIND] == codes.GDSF:
                s.ints[_INFLATION] = s.keys[b, KEY]
            remove(s, b)
            return b
    return -1
