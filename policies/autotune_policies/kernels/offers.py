"""What an engine asks of a tier that makes room before it stores: LRU, and the policies that evict the smallest key.

The caller protects what must stay, evicts with ``shrink``, releases, and then inserts block by block. Protected blocks
are pinned ones, so that every eviction already knows to pass them over.
"""

from __future__ import annotations

from autotune.core.decide import policy_codes as codes
from autotune.core.state import ABSENT, KEY, KIND, PARENT, PINS, SLOT, WHERE, TierState
from autotune_policies.kernels import lru, ranked
from autotune_policies.kernels.heap import push
from autotune_policies.kernels.jit import as_int64, compiled, step
from autotune_policies.kernels.lists import list_numbers, make_newest

_FIRST_RANKED = codes.LFU
_RESIDENT = 1
_ADMISSION, _MARGINAL, _TWO_HIT = 3, 1.0, 2.0
(_QUEUE,) = list_numbers(1)


@step
def leaf_only(s: TierState) -> bool:
    """Whether a block stays as long as a resident block continues it."""
    return s.ints[KIND] >= _FIRST_RANKED and ranked.leaf_only(s)


@step
def admits_marginally(s: TierState) -> bool:
    """Whether a block comes in only in place of one that it outranks."""
    return s.ints[KIND] == codes.RANK and s.params[_ADMISSION] == _MARGINAL


@step
def admits_known_only(s: TierState) -> bool:
    """Whether a block comes in only if it was seen before."""
    return s.ints[KIND] == codes.RANK and s.params[_ADMISSION] == _TWO_HIT


@step
def is_known(s: TierState, b: int) -> bool:
    """Whether a missing block was seen before."""
    return s.nodes[b, WHERE] != ABSENT


@step
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    if s.ints[KIND] >= _FIRST_RANKED:
        ranked.touch(s, b)
    else:
        make_newest(s, _QUEUE, b)


@step
def renew(s: TierState, b: int) -> None:
    """A resident block is as recent as this moment, but was not used again."""
    if s.ints[KIND] >= _FIRST_RANKED:
        ranked.renew(s, b)
    else:
        make_newest(s, _QUEUE, b)


@step
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    if s.ints[KIND] >= _FIRST_RANKED:
        ranked.insert(s, b)
    else:
        lru.insert(s, b)


@step
def refuse(s: TierState, b: int) -> None:
    """A block that stays out was asked for."""
    if s.ints[KIND] >= _FIRST_RANKED:
        ranked.refuse(s, b)


@step
def resident_parent(s: TierState, b: int) -> int:
    """The resident that the leaf rule keeps because of ``b``; -1 if there is none."""
    if not leaf_only(s):
        return as_int64(-1)
    parent = as_int64(s.nodes[b, PARENT])
    return parent if parent >= 0 and s.nodes[parent, WHERE] == _RESIDENT else as_int64(-1)


@compiled
def protect(s: TierState, b: int) -> int:
    """Keep a resident in its place, and under the leaf rule all residents that it continues, up to the first gap.

    Returns:
        How many residents that takes out of reach which were not before.
    """
    n = 0
    while s.nodes[b, PINS] == 0:
        s.nodes[b, PINS] = 1
        n += 1
        b = resident_parent(s, b)
        if b < 0:
            break
    return n


@compiled
def release(s: TierState, b: int) -> None:
    """Undo :func:`protect`; blocks that dropped out of the heap meanwhile return to it."""
    while s.nodes[b, PINS] > 0:
        s.nodes[b, PINS] = 0
        if s.ints[KIND] >= _FIRST_RANKED and s.nodes[b, SLOT] < 0 and ranked.evictable(s, b):
            push(s, b)
        b = resident_parent(s, b)
        if b < 0:
            break


@step
def foresee(s: TierState, b: int) -> None:
    """Note as key of a missing block the rank that it would have if it came in now."""
    ranked.foresee(s, b)


@compiled
def evict_outranked(s: TierState, b: int) -> int:
    """The next victim leaves if the missing block ``b``, whose key was foreseen, ranks at least as high.

    Returns:
        The victim; -1 if ``b`` does not outrank it, or nothing may leave.
    """
    victim = ranked.next_victim(s)
    if victim < 0 or s.keys[b, KEY] < s.keys[victim, KEY]:
        return as_int64(-1)
    ranked.remove_root(s, victim)
    return victim
