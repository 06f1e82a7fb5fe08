"""One name per operation for the simulator; the tier's ``ints[KIND]`` says which policy it means.

This module is what the entry point ``autotune.kernels`` hands out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide import policy_codes as codes
from autotune.core.state import GHOST, KIND, NEXT_USE, SEQUENCE, SIZE, WHERE, TierState
from autotune_policies.kernels import (
    arc,
    class_hazard,
    joint_lru,
    lru,
    offers,
    ranked,
    s3fifo,
    sieve,
    two_hit,
    writes,
    wtinylfu,
)
from autotune_policies.kernels.decide import load_pays, prefill_s, transfer_s
from autotune_policies.kernels.jit import as_int64, compiled, entry, inlined, step
from autotune_policies.kernels.observe import observe, reclassify
from autotune_policies.kernels.terms import fill_value_shifts, fill_value_terms

__all__ = [
    "advance",
    "as_int64",
    "compiled",
    "entry",
    "fill_value_shifts",
    "fill_value_terms",
    "inlined",
    "is_resident",
    "line_up",
    "load_pays",
    "observe",
    "offers",
    "prefill_s",
    "receive",
    "reclassify",
    "refresh",
    "remove",
    "reorder_all",
    "shrink",
    "take_back_write",
    "take_over",
    "transfer_s",
]

_FIRST_RANKED = codes.LFU


@step
def is_resident(s: TierState, b: int) -> bool:
    """Whether a block lies on the tier."""
    return 0 < s.nodes[b, WHERE] < GHOST


@compiled
def admits_demoted(s: TierState, b: int) -> bool:
    """Whether a missing block that a nearer tier evicts may come in."""
    kind = s.ints[KIND]
    if kind >= codes.RANK:
        return ranked.admits_demoted(s, b)
    if kind == codes.TWO_HIT:
        return two_hit.admits_demoted(s, b)
    return True


@compiled
def demote(s: TierState, b: int) -> None:
    """A missing block became resident because a nearer tier evicted it."""
    kind = s.ints[KIND]
    if kind >= _FIRST_RANKED:
        if kind >= codes.RANK:
            ranked.demote(s, b)
        else:
            ranked.insert(s, b)
    elif kind == codes.WTINYLFU:
        wtinylfu.demote(s, b)
    elif kind == codes.TWO_HIT:
        two_hit.demote(s, b)
    elif kind == codes.ARC:
        arc.insert(s, b)
    elif kind == codes.S3FIFO:
        s3fifo.insert(s, b)
    elif kind == codes.SIEVE:
        sieve.insert(s, b)
    else:
        lru.insert(s, b)


@compiled
def remove(s: TierState, b: int) -> None:
    """A resident block left for a reason other than space."""
    kind = s.ints[KIND]
    if kind == codes.CLASS_HAZARD:
        class_hazard.remove(s, b)
    elif kind >= _FIRST_RANKED:
        ranked.remove(s, b)
    elif kind == codes.JOINT_LRU:
        joint_lru.remove(s, b)
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
        lru.remove(s, b)


@compiled
def advance(s: TierState) -> None:
    """Time goes on."""
    if s.ints[KIND] == codes.CLASS_HAZARD:
        class_hazard.advance(s)


@compiled
def receive(
    s: TierState, victims: npt.NDArray[np.int64], n: int, next_use_of: npt.NDArray[np.int64], stores: bool
) -> int:
    """The nearer tier gave up the first ``n`` of ``victims``; what is missing here comes down if it ``stores``.

    Returns:
        How many blocks came down.
    """
    kind = s.ints[KIND]
    if kind == codes.JOINT_LRU:
        return joint_lru.receive(s, victims, n, stores)
    if kind == codes.CLASS_HAZARD:
        return class_hazard.receive(s, victims, n, stores)
    n_before = s.ints[SIZE]
    for i in range(n if stores else as_int64(0)):
        b = victims[i]
        if is_resident(s, b) or not admits_demoted(s, b):
            continue
        s.ints[SEQUENCE] += 1
        if next_use_of.shape[0] > 0:
            s.ints[NEXT_USE] = next_use_of[b]
        demote(s, b)
    return s.ints[SIZE] - n_before


@compiled
def take_back_write(s: TierState) -> None:
    """A block left in the round that brought it, so it was never written."""
    if s.ints[KIND] == codes.CLASS_HAZARD:
        writes.take_back(s)


@entry
def reorder_all(s: TierState) -> None:
    """Other rules are in force on a tier of the learned policy."""
    class_hazard.reorder_all(s)


@entry
def take_over(s: TierState, nearer: TierState) -> None:
    """The learned rule is in force on a tier that was LRU; ``nearer`` is the tier above, or ``s`` itself."""
    class_hazard.take_over(s, nearer)


@entry
def line_up(s: TierState, residents: npt.NDArray[np.int64], is_copy: npt.NDArray[np.uint8]) -> None:
    """A tier under the learned rule is LRU from now on, with its residents in the order given, the oldest first."""
    joint_lru.line_up(s, residents, is_copy)


@compiled
def shrink(s: TierState, reserved: int) -> int:
    """Evict until ``reserved`` blocks more would fit, or all residents are pinned, or ``victims`` is full.

    Returns:
        How many blocks left; they stand in ``victims``, in order. If it is full, more may have to leave.
    """
    kind = s.ints[KIND]
    if kind == codes.CLASS_HAZARD:
        n = class_hazard.shrink(s, reserved)
    elif kind >= _FIRST_RANKED:
        n = ranked.shrink(s, reserved)
    elif kind == codes.JOINT_LRU:
        n = joint_lru.shrink(s, reserved)
    elif kind == codes.ARC:
        n = arc.shrink(s, reserved)
    elif kind == codes.S3FIFO:
        n = s3fifo.shrink(s, reserved)
    elif kind == codes.SIEVE:
        n = sieve.shrink(s, reserved)
    elif kind == codes.WTINYLFU:
        n = wtinylfu.shrink(s, reserved)
    elif kind == codes.TWO_HIT:
        n = two_hit.shrink(s, reserved)
    else:
        n = lru.shrink(s, reserved)
    return n


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
    kind = s.ints[KIND]
    if kind == codes.CLASS_HAZARD:
        class_hazard.refresh(s, ids, lo, last, stride, may_insert)
    elif kind >= _FIRST_RANKED:
        ranked.refresh(s, ids, lo, last, stride, next_use_of, may_insert)
    elif kind == codes.LRU:
        lru.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.JOINT_LRU:
        joint_lru.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.ARC:
        arc.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.S3FIFO:
        s3fifo.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.SIEVE:
        sieve.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.WTINYLFU:
        wtinylfu.refresh(s, ids, lo, last, stride, may_insert)
    elif kind == codes.TWO_HIT:
        two_hit.refresh(s, ids, lo, last, stride, may_insert)
    elif may_insert:
        lru.insert_missing(s, ids, lo, last, stride)
