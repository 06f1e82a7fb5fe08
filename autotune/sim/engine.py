"""Run a trace through the tiered cache, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.state import PARENT, TierState
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier, Timing
from autotune.core.units import NS_PER_S
from autotune.sim import columns, scan, tiers
from autotune.sim.config import CacheConfig
from autotune.sim.loop import EAGER, EXCLUSIVE, LAZY, Rules, run_instant
from autotune.sim.reference import ReferenceCache
from autotune.sim.result import CacheResult
from autotune.sim.service import run_service
from autotune.sim.stream import (
    chunk_parents,
    make_stream,
    require_distinct_blocks,
    without_partial_blocks,
)

_STORE_CODES = {StoreMode.EAGER: EAGER, StoreMode.LAZY: LAZY, StoreMode.EXCLUSIVE: EXCLUSIVE}


def simulate_cache(trace: Trace, config: CacheConfig, costs: CostProfile) -> CacheResult:
    """Run every request of the trace through the configured cache, starting empty.

    Policies without a compiled twin run in the plain loop, which gives the same counts, slowly.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        PolicyError: a policy's parameters are not valid.
    """
    trace.require_blocks()
    if config.timing is Timing.SERVICE:
        require_distinct_blocks(trace)
    if config.full_blocks:
        trace = without_partial_blocks(trace)
    if not all(tiers.has_compiled_twin(spec) for spec in config.policies):
        return simulate_plainly(trace, config, costs)
    stream = make_stream(trace, config)
    states = make_tiers(trace, config, costs)
    out = np.zeros((trace.n_requests, columns.N_COLUMNS), np.int32)
    wait_ns = np.zeros(trace.n_requests, np.int64)
    next_use_of = np.zeros(trace.n_blocks if config.is_clairvoyant else 0, np.int64)
    rules = make_rules(trace, config, costs)
    if config.timing is Timing.SERVICE:
        finish_ns, running = np.zeros_like(wait_ns), np.zeros_like(wait_ns)
        run_service(stream, *states, rules, next_use_of, out, wait_ns, finish_ns, running)
    else:
        run_instant(stream, *states, rules, next_use_of, out, 0, trace.n_requests)
    return make_result(trace, config, costs, out, wait_ns)


def simulate_plainly(trace: Trace, config: CacheConfig, costs: CostProfile) -> CacheResult:
    """The same in plain Python: the reference that the compiled loop is tested against."""
    if config.full_blocks:
        trace = without_partial_blocks(trace)
    cache = ReferenceCache(trace, config, costs)
    cache.run()
    return make_result(trace, config, costs, cache.out, cache.wait_ns)


def make_result(
    trace: Trace, config: CacheConfig, costs: CostProfile, out: npt.NDArray[np.int32], wait_ns: npt.NDArray[np.int64]
) -> CacheResult:
    """Name the columns of the loop's output; what the tiers below the device count in chunks becomes blocks."""
    chunk = config.chunk_blocks
    return CacheResult(
        trace=trace,
        config=config,
        costs=costs,
        device_hit=out[:, columns.DEVICE_HIT],
        host_hit=out[:, columns.HOST_HIT],
        disk_hit=out[:, columns.DISK_HIT],
        stored=out[:, columns.STORED] * chunk,
        stored_disk=out[:, columns.STORED_DISK] * chunk,
        evicted_device=out[:, columns.EVICTED_DEVICE],
        evicted_host=out[:, columns.EVICTED_HOST] * chunk,
        oversized=out[:, columns.OVERSIZED],
        wait_s=wait_ns / NS_PER_S,
    )


def make_tiers(trace: Trace, config: CacheConfig, costs: CostProfile) -> tuple[TierState, TierState, TierState]:
    """Empty states of device, host and disk."""
    states = []
    for tier, spec, blocks in zip(Tier, config.policies, config.capacities, strict=True):
        chunk = 1 if tier is Tier.DEVICE else config.chunk_blocks
        if blocks == 0:
            states.append(tiers.empty_tier())
            continue
        context = tiers.tier_context(blocks // chunk, tier, trace, costs)
        states.append(tiers.compiled_tier(spec, context, trace.n_blocks))
        if tiers.is_ranked(spec):
            scan.place_blocks(trace, states[-1].nodes)
            parents = states[-1].nodes[: trace.n_blocks, PARENT]
            if chunk > 1:
                parents[:] = chunk_parents(parents.copy(), chunk)
    return states[0], states[1], states[2]


def make_rules(trace: Trace, config: CacheConfig, costs: CostProfile) -> Rules:
    """Engine semantics and cost coefficients in the types that the loop was compiled for."""
    return Rules(
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
        disk_path_bytes_per_s=tiers.disk_path_bytes_per_s(costs),
    )
