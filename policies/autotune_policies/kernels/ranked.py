"""All policies that evict the smallest key, compiled: rank rule, LFU, LRFU, GDSF and the clairvoyant bounds.

They differ in the key only; statistics, ghosts, the heap and the leaf rule are common.
``params``: weight_ns, half_life_s, ghost entries, admission code (0 all, 1 marginal, 2 two-hit).

Blocks of one request mostly share their history, so the last decay and the last logarithm are kept and used again
where their inputs are the same: ``floats`` holds the frequency that was decayed, what it came to, and the frequency
whose logarithm was taken; ``ints`` the time over which it decayed and the term of the rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    ABSENT,
    CAPACITY,
    CHILDREN,
    DEPTH,
    GHOST,
    HEAP_BLOCK,
    HEAP_SIZE,
    INSERTED_BY,
    KEY,
    KEY_SEQUENCE,
    KIND,
    LAST_NS,
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
from autotune_policies.kernels.decide import (
    decayed_frequency,
    frequency_term_ns,
    gdsf_key,
    next_use_key,
    seconds_density_key,
)
from autotune_policies.kernels.heap import push, replace_root, settle_root, take_out, update
from autotune_policies.kernels.jit import as_int64, compiled, step
from autotune_policies.kernels.lists import list_numbers, oldest, push_newest, size, unlink

_RESIDENT = 1
(_GHOSTS,) = list_numbers(1)
_WEIGHT_NS, _HALF_LIFE_S, _GHOST_BLOCKS, _ADMISSION = range(4)
_BEFORE, _DECAYED, _FREQUENCY = range(3)  # floats
_INFLATION, _ELAPSED_NS, _TERM_NS = SCRATCH, SCRATCH + 1, SCRATCH + 2  # ints; the first is GDSF's aging term


@step
def leaf_only(s: TierState) -> bool:
    """Whether a block stays as long as a resident block continues it."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        return s.params[_WEIGHT_NS] > 0.0  # without weight it is LRU, which knows no leaves
    return kind == codes.CLAIRVOYANT or kind == codes.CLAIRVOYANT_SECONDS


@step
def evictable(s: TierState, b: int) -> bool:
    """Whether the leaf rule lets a resident leave."""
    return s.nodes[b, CHILDREN] == 0 or not leaf_only(s)


@step
def _counted(s: TierState, b: int) -> float:
    """Frequency with one more access: what is remembered decays to now, then this access counts 1."""
    if s.nodes[b, WHERE] == ABSENT:
        return 1.0
    frequency, elapsed_ns = s.counts[b], s.ints[NOW_NS] - s.keys[b, LAST_NS]
    if frequency != s.floats[_BEFORE] or elapsed_ns != s.ints[_ELAPSED_NS]:
        s.floats[_BEFORE] = frequency
        s.ints[_ELAPSED_NS] = elapsed_ns
        s.floats[_DECAYED] = decayed_frequency(frequency, elapsed_ns / 1e9, s.params[_HALF_LIFE_S])
    return s.floats[_DECAYED] + 1.0


@step
def _count(s: TierState, b: int) -> None:
    s.counts[b] = _counted(s, b)
    s.keys[b, LAST_NS] = s.ints[NOW_NS]


@step
def _value_term(s: TierState, b: int) -> int:
    return s.terms[min(as_int64(s.nodes[b, DEPTH]), s.terms.shape[0] - 1)]


@step
def _rank_ns(s: TierState, frequency: float, term_ns: int) -> int:
    if frequency != s.floats[_FREQUENCY]:
        s.floats[_FREQUENCY] = frequency
        s.ints[_TERM_NS] = frequency_term_ns(s.params[_WEIGHT_NS], frequency)
    return s.ints[NOW_NS] + s.ints[_TERM_NS] + term_ns


@step
def _rekey(s: TierState, b: int) -> None:
    kind = s.ints[KIND]
    term = _value_term(s, b)
    if kind == codes.RANK or kind == codes.LRFU:
        key = _rank_ns(s, s.counts[b], term)
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


@step
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    _count(s, b)
    _reorder(s, b)


@step
def renew(s: TierState, b: int) -> None:
    """A resident block is as recent as this moment, but was not used again."""
    s.keys[b, LAST_NS] = s.ints[NOW_NS]
    _reorder(s, b)


@step
def _reorder(s: TierState, b: int) -> None:
    _rekey(s, b)
    if s.nodes[b, SLOT] >= 0:
        update(s, b)
    elif evictable(s, b):
        push(s, b)


@step
def foresee(s: TierState, b: int) -> None:
    """Note as key of a missing block the rank that it would have if it came in now; only the rank rule needs that."""
    s.keys[b, KEY] = _rank_ns(s, _counted(s, b), _value_term(s, b))


@step
def admits(s: TierState, b: int) -> bool:
    """Whether a missing block may become resident; marginal admission is settled by the eviction that follows."""
    return s.params[_ADMISSION] != 2.0 or s.nodes[b, WHERE] == GHOST


@step
def admits_demoted(s: TierState, b: int) -> bool:
    """Under two-hit admission, a block that comes down must have been used twice, for coming down is no use."""
    return s.params[_ADMISSION] != 2.0 or (s.nodes[b, WHERE] == GHOST and s.counts[b] > 1.0)


@step
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


@step
def _settle_in(s: TierState, b: int) -> None:
    if s.nodes[b, WHERE] == GHOST:
        unlink(s, _GHOSTS, b)
    s.nodes[b, WHERE] = _RESIDENT
    s.ints[SIZE] += 1
    s.keys[b, INSERTED_BY] = s.ints[REQUEST]
    parent = as_int64(s.nodes[b, PARENT])
    if parent >= 0:
        s.nodes[parent, CHILDREN] += 1
    _rekey(s, b)
    if evictable(s, b):
        push(s, b)


@step
def refuse(s: TierState, b: int) -> None:
    """A block that stays out was asked for: to the rank rule that is an access of its ghost."""
    if s.ints[KIND] != codes.RANK or s.params[_GHOST_BLOCKS] < 1.0:
        return
    _count(s, b)
    if s.nodes[b, WHERE] == GHOST:
        unlink(s, _GHOSTS, b)
    _become_ghost(s, b)


@step
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


@step
def _new_leaf(s: TierState, b: int) -> int:
    """The parent that becomes evictable because a block leaves and has to enter the heap; -1 if there is none."""
    parent = as_int64(s.nodes[b, PARENT])
    if parent < 0:
        return as_int64(-1)
    s.nodes[parent, CHILDREN] -= 1
    if s.nodes[parent, WHERE] != _RESIDENT or s.nodes[parent, SLOT] >= 0 or not evictable(s, parent):
        return as_int64(-1)
    return parent


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left; its statistics stay as a ghost, and its parent may have become a leaf."""
    take_out(s, b)
    s.ints[SIZE] -= 1
    parent = _new_leaf(s, b)
    if parent >= 0:
        push(s, parent)
    _become_ghost(s, b)


@step
def next_victim(s: TierState) -> int:
    """The block that would leave next, which then is the root of the heap; -1 if none may leave.

    Pinned blocks and blocks with resident children drop out of the heap when they reach its root; the touch that ends a
    pin, or the last child's leaving, puts them back.
    """
    while s.ints[HEAP_SIZE] > 0:
        b = s.heap[0, HEAP_BLOCK]
        if s.nodes[b, PINS] > 0 or not evictable(s, b):
            take_out(s, b)
        elif not settle_root(s):
            return b
    return as_int64(-1)


@step
def remove_root(s: TierState, b: int) -> None:
    """Block ``b``, the root of the heap, leaves."""
    s.ints[SIZE] -= 1
    parent = _new_leaf(s, b)
    if parent >= 0:
        replace_root(s, parent)
    else:
        take_out(s, b)
    _become_ghost(s, b)


@compiled
def refresh(
    s: TierState,
    ids: npt.NDArray[np.int32],
    lo: int,
    last: int,
    stride: int,
    next_use_of: npt.NDArray[np.int64],
    may_insert: bool,
) -> None:
    """One request uses blocks ``ids[last]``, ``ids[last - stride]`` and so on down to ``lo``, in that order."""
    for i in range(last, lo - 1, -stride):
        b = as_int64(ids[i])
        s.ints[SEQUENCE] += 1
        if next_use_of.shape[0] > 0:
            s.ints[NEXT_USE] = next_use_of[b]
        if s.nodes[b, WHERE] == _RESIDENT:
            touch(s, b)
        elif may_insert and admits(s, b):
            insert(s, b)
        else:
            refuse(s, b)


@compiled
def shrink(s: TierState, reserved: int) -> int:
    """Evict until ``reserved`` blocks more would fit, or no resident may leave, or ``victims`` is full.

    Returns:
        How many blocks left; they stand in ``victims``, in order.
    """
    n = 0
    n_wanted = min(s.ints[SIZE] + reserved - s.ints[CAPACITY], s.victims.shape[0])
    while n < n_wanted:
        b = next_victim(s)
        if b < 0:
            break
        if s.ints[KIND] == codes.GDSF:
            s.ints[_INFLATION] = s.keys[b, KEY]
        remove_root(s, b)
        s.victims[n] = b
        n += 1
    return n
