"""Run a trace through the tiered cache, compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.decide.keys import NEVER
from autotune.core.trace import Trace, chain_parents
from autotune.core.types import StoreMode, Tier, Timing
from autotune.core.units import NS_PER_S
from autotune.sim import loop, tiers
from autotune.sim.config import CacheConfig
from autotune.sim.result import CacheResult

_STORE_CODES = {StoreMode.EAGER: loop.EAGER, StoreMode.LAZY: loop.LAZY, StoreMode.EXCLUSIVE: loop.EXCLUSIVE}


def without_partial_blocks(trace: Trace) -> Trace:
    """The trace as an engine caches it: only blocks that are filled to the last token."""
    lengths = np.diff(trace.block_offsets)
    full = np.minimum(lengths, trace.input_tokens // trace.block_tokens)
    if np.array_equal(full, lengths):
        return trace
    position = np.arange(trace.n_accesses) - np.repeat(trace.block_offsets[:-1], lengths)
    keep = position < np.repeat(full, lengths)
    offsets = np.concatenate(([0], np.cumsum(full)))
    return replace(trace, block_offsets=offsets, block_ids=trace.block_ids[keep])


def next_uses(trace: Trace) -> npt.NDArray[np.int64]:
    """``(n_accesses,)`` index of the next request that touches the same block, ``NEVER`` if none does."""
    request = np.repeat(np.arange(trace.n_requests), np.diff(trace.block_offsets))
    order = np.argsort(trace.block_ids, kind="stable")
    ids = trace.block_ids[order]
    uses = np.full(trace.n_accesses, NEVER, np.int64)
    same = ids[1:] == ids[:-1]
    uses[order[:-1][same]] = request[order[1:][same]]
    return uses


def block_depths(trace: Trace) -> npt.NDArray[np.int32]:
    """``(n_blocks,)`` position of each block in its chain, as seen at its first appearance."""
    position = np.arange(trace.n_accesses) - np.repeat(trace.block_offsets[:-1], np.diff(trace.block_offsets))
    depths = np.zeros(trace.n_blocks, np.int32)
    depths[trace.block_ids[::-1]] = position[::-1]
    return depths


def simulate_cache(trace: Trace, config: CacheConfig, costs: CostProfile) -> CacheResult:
    """Run every request of the trace through the configured cache, starting empty.

    Raises:
        TraceError: the trace carries no blocks.
        PolicyError: a policy's parameters are not valid.
    """
    trace.require_blocks()
    if config.full_blocks:
        trace = without_partial_blocks(trace)
    stream = make_stream(trace, config, costs)
    states = make_tiers(trace, config, costs)
    out = np.zeros((trace.n_requests, loop.N_COLUMNS), np.int32)
    wait_ns = np.zeros(trace.n_requests, np.int64)
    next_use_of = np.zeros(trace.n_blocks if config.is_clairvoyant else 0, np.int64)
    run = loop.run_service if config.timing is Timing.SERVICE else loop.run_instant
    run(stream, *states, make_rules(trace, config, costs), next_use_of, out, wait_ns, 0, trace.n_requests)
    return make_result(trace, config, costs, out, wait_ns)


def make_result(
    trace: Trace, config: CacheConfig, costs: CostProfile, out: npt.NDArray[np.int32], wait_ns: npt.NDArray[np.int64]
) -> CacheResult:
    """Name the columns of the loop's output."""
    return CacheResult(
        trace=trace,
        config=config,
        costs=costs,
        device_hit=out[:, loop.DEVICE_HIT],
        host_hit=out[:, loop.HOST_HIT],
        disk_hit=out[:, loop.DISK_HIT],
        stored=out[:, loop.STORED],
        stored_disk=out[:, loop.STORED_DISK],
        evicted_device=out[:, loop.EVICTED_DEVICE],
        evicted_host=out[:, loop.EVICTED_HOST],
        oversized=out[:, loop.OVERSIZED],
        wait_s=wait_ns / NS_PER_S,
    )


def make_stream(trace: Trace, config: CacheConfig, costs: CostProfile) -> loop.Stream:
    """The trace's columns in the types that the loop was compiled for."""
    lengths = np.diff(trace.block_offsets)
    hits = (trace.input_tokens - 1) // trace.block_tokens if config.full_blocks else lengths
    return loop.Stream(
        arrival_ns=np.rint(trace.arrival_s * NS_PER_S).astype(np.int64),
        offsets=trace.block_offsets.astype(np.int64, copy=False),
        ids=trace.block_ids,
        max_hit=np.minimum(hits, lengths).astype(np.int32),
        input_tokens=trace.input_tokens.astype(np.int32, copy=False),
        decode_ns=np.rint(trace.output_tokens * config.itl_s * NS_PER_S).astype(np.int64),
        next_use=next_uses(trace) if config.is_clairvoyant else np.zeros(0, np.int64),
    )


def make_tiers(
    trace: Trace, config: CacheConfig, costs: CostProfile
) -> tuple[tiers.TierState, tiers.TierState, tiers.TierState]:
    """Empty states of device, host and disk."""
    parents, depths = chain_parents(trace), block_depths(trace)
    states = []
    for tier, spec, blocks in zip(Tier, config.policies, config.capacities, strict=True):
        chunk = 1 if tier is Tier.DEVICE else config.chunk_blocks
        if blocks == 0:
            states.append(tiers.empty_tier())
            continue
        context = tiers.tier_context(blocks // chunk, tier, trace, costs)
        states.append(tiers.compiled_tier(spec, context, trace.n_blocks, chunk_parents(parents, chunk), depths))
    return states[0], states[1], states[2]


def chunk_parents(parents: npt.NDArray[np.int32], chunk_blocks: int) -> npt.NDArray[np.int32]:
    """The block ``chunk_blocks`` before each block in its chain, -1 where there is none."""
    result = parents
    for _ in range(chunk_blocks - 1):
        result = np.where(result >= 0, parents[result], np.int32(-1))
    return result


def make_rules(trace: Trace, config: CacheConfig, costs: CostProfile) -> loop.Rules:
    """Engine semantics and cost coefficients in the types that the loop was compiled for."""
    return loop.Rules(
        store_mode=_STORE_CODES[config.store_mode],
        chunk_blocks=config.chunk_blocks,
        min_load_blocks=config.min_load_blocks,
        check_break_even=config.check_break_even,
        block_tokens=trace.block_tokens,
        block_bytes=float(trace.block_tokens * costs.kv_bytes_per_token),
        linear_s=costs.prefill_linear_s,
        quadratic_s=costs.prefill_quadratic_s,
        load_bytes_per_s=costs.load_bytes_per_s,
        load_latency_s=costs.load_latency_s,
        disk_bytes_per_s=costs.disk_bytes_per_s,
        disk_latency_s=costs.disk_latency_s,
    )
