"""Steps 3 to 6 of the vllm mode, compiled: what becomes of the chunks that a request offers to the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.state import CAPACITY, N_VICTIMS, NEXT_USE, SEQUENCE, SIZE, TierState
from autotune.sim.columns import EVICTED_HOST, STORED
from autotune.sim.journal import FAILED, KEPT, N_EVICTED, REFUSED, REUSED, Journal
from autotune.sim.loop import Rules
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_compiled = _kernels.compiled
_inlined = _kernels.inlined
_as_int64 = _kernels.as_int64
_is_resident = _kernels.is_resident
_shrink = _kernels.shrink
_admits_known_only = _kernels.offers.admits_known_only
_admits_marginally = _kernels.offers.admits_marginally
_is_known = _kernels.offers.is_known
_insert = _kernels.offers.insert
_refuse = _kernels.offers.refuse
_protect = _kernels.offers.protect
_release = _kernels.offers.release
_resident_parent = _kernels.offers.resident_parent
_foresee = _kernels.offers.foresee
_evict_outranked = _kernels.offers.evict_outranked


@_inlined
def chunk_of(stream: Stream, r: int, chunk_blocks: int, c: int) -> int:
    """Chunk ``c`` of a request, named after its last block."""
    return _as_int64(stream.ids[stream.offsets[r] + (c + 1) * chunk_blocks - 1])


@_inlined
def next_access(host: TierState, b: int, next_use_of: npt.NDArray[np.int64]) -> None:
    """Tell the host which block the next access is to."""
    host.ints[SEQUENCE] += 1
    if next_use_of.shape[0] > 0:
        host.ints[NEXT_USE] = next_use_of[b]


@_compiled
def offer(
    stream: Stream,
    r: int,
    first: int,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    journal: Journal,
) -> None:
    """Offer chunks from ``first`` on: sort them out, admit, make room, bring in, remember the refused."""
    lo = stream.offsets[r]
    n_chunks = (stream.offsets[r + 1] - lo) // rules.chunk_blocks
    fates = journal.fates
    n_candidates, candidate = _sort_out(stream, r, first, n_chunks, host, rules, fates)
    if n_candidates == 0:
        return
    free = host.ints[CAPACITY] - host.ints[SIZE]
    n_admitted = _as_int64(0)
    if _admits_marginally(host) and n_candidates > free:
        _protect_offer(stream, r, first, n_chunks, candidate, host, rules, fates)
        n_admitted = _admit_outranking(stream, r, first, n_chunks, free, host, rules, out, journal)
        _release_offer(stream, r, first, n_chunks, candidate, host, rules, fates)
    else:
        n_admitted = _count_admitted(stream, r, first, n_chunks, n_candidates, host, rules, fates)
        if n_admitted > free:
            kept = _protect_offer(stream, r, first, n_chunks, candidate, host, rules, fates)
            possible = host.ints[SIZE] - kept >= n_admitted - free
            if possible:
                _evict(host, r, n_admitted, out, journal)
            _release_offer(stream, r, first, n_chunks, candidate, host, rules, fates)
            if not possible:
                _mark_failed(lo, first, n_chunks, n_admitted, fates)
                return
    _bring_in(stream, r, first, n_chunks, n_admitted, host, rules, next_use_of, fates)
    out[r, STORED] += n_admitted


@_inlined
def _sort_out(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    host: TierState,
    rules: Rules,
    fates: npt.NDArray[np.int8],
) -> tuple[int, int]:
    """Mark residents as reused and the others as refused for now; returns how many others, and the first of them."""
    lo = stream.offsets[r]
    n_candidates = 0
    candidate = _as_int64(-1)
    for c in range(n_chunks - 1, first - 1, -1):
        b = chunk_of(stream, r, rules.chunk_blocks, c)
        if _is_resident(host, b):
            fates[lo + c] = REUSED
        else:
            fates[lo + c] = REFUSED
            n_candidates += 1
            candidate = b
    return n_candidates, candidate


@_inlined
def _count_admitted(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    n_candidates: int,
    host: TierState,
    rules: Rules,
    fates: npt.NDArray[np.int8],
) -> int:
    """Candidates up to the first that the policy refuses."""
    if not _admits_known_only(host):
        return n_candidates
    n = _as_int64(0)
    for c in range(first, n_chunks):
        if fates[stream.offsets[r] + c] == REFUSED:
            if not _is_known(host, chunk_of(stream, r, rules.chunk_blocks, c)):
                break
            n += 1
    return n


@_inlined
def _admit_outranking(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    free: int,
    host: TierState,
    rules: Rules,
    out: npt.NDArray[np.int32],
    journal: Journal,
) -> int:
    """Fill the free places, then let candidates displace what they outrank; ranks are those before anything changes."""
    lo, chunk_blocks = stream.offsets[r], rules.chunk_blocks
    for c in range(first, n_chunks):
        if journal.fates[lo + c] == REFUSED:
            _foresee(host, chunk_of(stream, r, chunk_blocks, c))
    n = _as_int64(0)
    for c in range(first, n_chunks):
        if journal.fates[lo + c] != REFUSED:
            continue
        if n >= free:
            victim = _evict_outranked(host, chunk_of(stream, r, chunk_blocks, c))
            if victim < 0:
                break
            _note_eviction(victim, r, out, journal)
        n += 1
    return n


@_inlined
def _note_eviction(victim: int, r: int, out: npt.NDArray[np.int32], journal: Journal) -> None:
    out[r, EVICTED_HOST] += 1
    if journal.evicted.shape[0] > 0:
        journal.evicted[journal.counts[N_EVICTED]] = victim
        journal.counts[N_EVICTED] += 1


@_inlined
def _evict(host: TierState, r: int, n_places: int, out: npt.NDArray[np.int32], journal: Journal) -> None:
    n = N_VICTIMS
    while n == N_VICTIMS:
        n = _shrink(host, n_places)
        for i in range(n):
            _note_eviction(host.victims[i], r, out, journal)


@_compiled
def _protect_offer(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    candidate: int,
    host: TierState,
    rules: Rules,
    fates: npt.NDArray[np.int8],
) -> int:
    """Keep the residents of the offer and what the first candidate continues; how many residents cannot leave then."""
    kept = 0
    for c in range(n_chunks - 1, first - 1, -1):
        if fates[stream.offsets[r] + c] == REUSED:
            kept += _protect(host, chunk_of(stream, r, rules.chunk_blocks, c))
    parent = _resident_parent(host, candidate)
    return kept + _protect(host, parent) if parent >= 0 else kept


@_compiled
def _release_offer(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    candidate: int,
    host: TierState,
    rules: Rules,
    fates: npt.NDArray[np.int8],
) -> None:
    for c in range(n_chunks - 1, first - 1, -1):
        if fates[stream.offsets[r] + c] == REUSED:
            _release(host, chunk_of(stream, r, rules.chunk_blocks, c))
    parent = _resident_parent(host, candidate)
    if parent >= 0:
        _release(host, parent)


@_inlined
def _mark_failed(lo: int, first: int, n_chunks: int, n_admitted: int, fates: npt.NDArray[np.int8]) -> None:
    n = 0
    for c in range(first, n_chunks):
        if fates[lo + c] == REFUSED and n < n_admitted:
            fates[lo + c] = FAILED
            n += 1


@_inlined
def _bring_in(
    stream: Stream,
    r: int,
    first: int,
    n_chunks: int,
    n_admitted: int,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    fates: npt.NDArray[np.int8],
) -> None:
    """The first ``n_admitted`` candidates come in, in prefix order; the others are remembered, deepest first."""
    lo = stream.offsets[r]
    n = 0
    c = first
    while n < n_admitted:
        if fates[lo + c] == REFUSED:
            b = chunk_of(stream, r, rules.chunk_blocks, c)
            next_access(host, b, next_use_of)
            _insert(host, b)
            fates[lo + c] = KEPT
            n += 1
        c += 1
    for d in range(n_chunks - 1, c - 1, -1):
        if fates[lo + d] == REFUSED:
            b = chunk_of(stream, r, rules.chunk_blocks, d)
            next_access(host, b, next_use_of)
            _refuse(host, b)
