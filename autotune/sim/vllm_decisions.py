"""The decisions of the vllm mode, chunk by chunk: what vLLM's own manager must say to the same calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.journal import FAILED, FIRST_OFFERED, KEPT
from autotune.sim.result import CacheResult
from autotune.sim.vllm_engine import VllmRun, run_vllm, run_vllm_plainly

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Runs:
    """Several chunks per request, flat.

    Attributes:
        offsets: ``(n_requests + 1,)`` int64; those of request ``r`` are ``ids[offsets[r]:offsets[r + 1]]``.
        ids: int32 chunks, each named by the dense id of its last block.
    """

    offsets: npt.NDArray[np.int64]
    ids: Ids

    def of(self, request: int) -> Ids:
        """Those of one request."""
        return self.ids[self.offsets[request] : self.offsets[request + 1]]


@dataclass(frozen=True, slots=True)
class VllmDecisions:
    """What a run in vllm mode decided.

    All of a request's decisions fall when it gets its turn, in this order: lookup (``device_hit_chunks``,
    ``host_hit_chunks``), load of those host hits, offer of ``offered``, eviction of ``evicted``, storing of ``stored``.
    When it ends nothing is decided, but recency changes, so that the order of turns and ends (``calls``) matters under
    service timing.

    Attributes:
        result: The counts of the same run; ``result.trace`` is the trace without partial blocks.
        chunks: All full chunks of each request, in prefix order.
        device_hit_chunks: ``(n_requests,)`` chunks that the device held whole; the host is asked from there on.
        host_hit_chunks: ``(n_requests,)`` chunks loaded: ``chunks.of(r)[device_hit_chunks[r]:][:host_hit_chunks[r]]``.
        offered: Chunks offered to the host, in prefix order.
        stored: Those of them that were stored, in the order of their insertion.
        evicted: Chunks that left the host to make room for them, in order.
        failed: ``(n_requests,)`` whether admitted chunks found no room, so that nothing was stored.
        calls: ``(2 * n_requests,)`` int64 in order of time: ``r`` where request r gets its turn, ``-1 - r`` where it
            ends.
        start_ns: ``(n_requests,)`` int64 when each got its turn.
        end_ns: ``(n_requests,)`` int64 when each ended.
    """

    result: CacheResult
    chunks: Runs
    device_hit_chunks: npt.NDArray[np.int32]
    host_hit_chunks: npt.NDArray[np.int32]
    offered: Runs
    stored: Runs
    evicted: Runs
    failed: npt.NDArray[np.bool_]
    calls: npt.NDArray[np.int64]
    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]


def vllm_decisions(trace: Trace, config: CacheConfig, costs: CostProfile) -> VllmDecisions:
    """Decisions of the compiled loop where both policies have a twin, else of the plain one.

    Args:
        trace: The requests.
        config: An engine with vLLM's semantics.
        costs: The cost model.

    Raises:
        AutotuneError: the engine has other semantics, or the trace or a policy cannot be simulated.
    """
    return decisions_of(run_vllm(trace, config, costs, log=True))


def vllm_decisions_plainly(trace: Trace, config: CacheConfig, costs: CostProfile) -> VllmDecisions:
    """Decisions of the plain loop.

    Raises:
        AutotuneError: as for :func:`vllm_decisions`.
    """
    return decisions_of(run_vllm_plainly(trace, config, costs))


def decisions_of(run: VllmRun) -> VllmDecisions:
    """The decisions of a run that noted all of them."""
    result, chunk_blocks = run.result, run.result.config.chunk_blocks
    chunks = _chunks_of(result.trace, chunk_blocks)
    fates = _fates_by_chunk(run, chunks)
    on_device = result.device_hit // chunk_blocks
    # The first loaded chunk may be there in part already; hits count blocks.
    loaded = np.where(result.host_hit > 0, (result.device_hit + result.host_hit) // chunk_blocks - on_device, 0)
    evicted = np.concatenate(([0], np.cumsum(result.evicted_host // chunk_blocks, dtype=np.int64)))
    request = np.repeat(np.arange(result.trace.n_requests), np.diff(chunks.offsets))
    return VllmDecisions(
        result=result,
        chunks=chunks,
        device_hit_chunks=on_device,
        host_hit_chunks=loaded.astype(np.int32),
        offered=_where(chunks, fates >= FIRST_OFFERED),
        stored=_where(chunks, fates == KEPT),
        evicted=Runs(evicted, run.evicted),
        failed=np.bincount(request[fates == FAILED], minlength=result.trace.n_requests) > 0,
        calls=run.calls,
        start_ns=run.start_ns,
        end_ns=run.end_ns,
    )


def _chunks_of(trace: Trace, chunk_blocks: int) -> Runs:
    n_chunks = np.diff(trace.block_offsets) // chunk_blocks
    offsets = np.concatenate(([0], np.cumsum(n_chunks, dtype=np.int64)))
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], n_chunks)
    last_block = np.repeat(trace.block_offsets[:-1], n_chunks) + (place + 1) * chunk_blocks - 1
    return Runs(offsets, trace.block_ids[last_block])


def _fates_by_chunk(run: VllmRun, chunks: Runs) -> npt.NDArray[np.int8]:
    n_chunks = np.diff(chunks.offsets)
    place = np.arange(chunks.offsets[-1]) - np.repeat(chunks.offsets[:-1], n_chunks)
    return run.fates[np.repeat(run.result.trace.block_offsets[:-1], n_chunks) + place]


def _where(chunks: Runs, chosen: npt.NDArray[np.bool_]) -> Runs:
    before = np.concatenate(([0], np.cumsum(chosen, dtype=np.int64)))
    return Runs(before[chunks.offsets], chunks.ids[chosen])
