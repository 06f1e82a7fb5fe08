"""One name per operation for the simulator; the tier's ``ints[KIND]`` says which policy it means.

This module is what the entry point ``autotune.kernels`` hands out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide import policy_codes as codes
from autotune.core.state import GHOST, KIND, NEXT_USE, SEQUENCE, WHERE, TierState
from autotune_policies.kernels import arc, fifo, lru, ranked, s3fifo, sieve, two_hit, wtinylfu
from autotune_policies.kernels.decide import load_pays, prefill_s, transfer_s
from autotune_policies.kernels.jit import compiled

__all__ = [
    "admits_demoted",
    "compiled",
    "demote",
    "evict",
    "is_resident",
    "load_pays",
    "prefill_s",
    "refresh",
    "remove",
    "transfer_s",
]

_FIRST_RANKED = codes.LFU


@compiled
def is_resident(s: TierState, b: int) -> bool:
    """Whether a block lies on the tier."""
    return 0 < s.nodes[b, WHERE] < GHOST


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.touch(s, b)
    elif kind == codes.LRU:
        lru.touch(s, b)
    elif kind == codes.ARC:
        arc.touch(s, b)
    elif kind == codes.S3FIFO:
        s3fifo.touch(s, b)
    elif kind == codes.SIEVE:
        sieve.touch(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.touch(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.touch(s, b)
    else:
        fifo.touch(s, b)


@compiled
def admits(s: TierState, b: int) -> bool:
    """Whether a missing block that was asked for may become resident."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        return ranked.admits(s, b)
    if kind == codes.TWO_HIT:
        return two_hit.admits(s, b)
    return True


@compiled
def admits_demoted(s: TierState, b: int) -> bool:
    """Whether a missing block that a nearer tier evicts may come in."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        return ranked.admits_demoted(s, b)
    if kind == codes.TWO_HIT:
        return two_hit.admits_demoted(s, b)
    return True


@compiled
def insert(s: TierState, b: int) -> None:
    """A missing block became resident."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.insert(s, b)
    elif kind == codes.LRU:
        lru.insert(s, b)
    elif kind == codes.ARC:
        arc.insert(s, b)
    elif kind == codes.S3FIFO:
        s3fifo.insert(s, b)
    elif kind == codes.SIEVE:
        sieve.insert(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.insert(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.insert(s, b)
    else:
        fifo.insert(s, b)


@compiled
def demote(s: TierState, b: int) -> None:
    """A missing block became resident because a nearer tier evicted it."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        ranked.demote(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.demote(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.demote(s, b)
    else:
        insert(s, b)


@compiled
def refuse(s: TierState, b: int) -> None:
    """A block that is not resident was asked for and stays out."""
    kind = s.ints[KIND]
    if kind == codes.RANK:
        ranked.refuse(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.refuse(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.refuse(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        ranked.remove(s, b)
    elif kind == codes.LRU:
        lru.remove(s, b)
    elif kind == codes.ARC:
        arc.remove(s, b)
    elif kind == codes.S3FIFO:
        s3fifo.remove(s, b)
    elif kind == codes.SIEVE:
        sieve.remove(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.remove(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.remove(s, b)
    else:
        fifo.remove(s, b)


@compiled
def evict(s: TierState) -> int:
    """Choose a resident that is not pinned, forget it and return it; -1 if there is none."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        return ranked.evict(s)
    if kind == codes.LRU:
        return lru.evict(s)
    if kind == codes.ARC:
        return arc.evict(s)
    if kind == codes.S3FIFO:
        return s3fifo.evict(s)
    if kind == codes.SIEVE:
        return sieve.evict(s)
    if kind == codes.WTINYLFU:
        return wtinylfu.evict(s)
    if kind == codes.TWO_HIT:
        return two_hit.evict(s)
    return fifo.evict(s)


@compiled
def refresh(
    s: TierState,
    ids: npt.NDArray[np.int32],
    lo: int,
    hi: int,
    stride: int,
    next_use_of: npt.NDArray[np.int64],
    may_insert: bool,
) -> None:
    """One request uses blocks ``ids[lo:hi]`` (every ``stride``-th, the last of each chunk), deepest first.

    Resident ones are touched; missing ones are inserted if ``may_insert`` and the policy admits them, else refused.
    """
    last = lo + ((hi - lo) // stride) * stride - 1
    if s.ints[KIND] == codes.LRU:
        _refresh_lru(s, ids, lo, last, stride, may_insert)
        return
    for i in range(last, lo - 1, -stride):
        b = ids[i]
        s.ints[SEQUENCE] += 1
        if next_use_of.shape[0] > 0:
            s.ints[NEXT_USE] = next_use_of[b]
        if is_resident(s, b):
            touch(s, b)
        elif may_insert and admits(s, b):
            insert(s, b)
        else:
            refuse(s, b)


@compiled
def _refresh_lru(
    s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int, may_insert: bool
) -> None:
    """The same for LRU, the baseline of every run, without a choice of policy per block."""
    for i in range(last, lo - 1, -stride):
        b = ids[i]
        if s.nodes[b, WHERE] != 0:
            lru.touch(s, b)
        elif may_insert:
            lru.insert(s, b)
