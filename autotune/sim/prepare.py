"""What the compiled loops run on, made from trace, configuration and costs; and the result of what they fill in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.state import DEPTH, PARENT, TierState
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.core.units import NS_PER_S
from autotune.sim import columns, scan, tiers
from autotune.sim.config import CacheConfig
from autotune.sim.loop import EAGER, EXCLUSIVE, LAZY, Rules
from autotune.sim.result import CacheResult
from autotune.sim.stream import chunk_parents

STORE_CODES = {StoreMode.EAGER: EAGER, StoreMode.LAZY: LAZY, StoreMode.EXCLUSIVE: EXCLUSIVE}


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
        unit = config.depth_unit_blocks(tier)
        context = tiers.tier_context(blocks // chunk, tier, trace, costs, unit)
        states.append(tiers.compiled_tier(spec, context, trace.n_blocks))
        if tiers.is_ranked(spec):
            scan.place_blocks(trace, states[-1].nodes)
            parents = states[-1].nodes[: trace.n_blocks, PARENT]
            if chunk > 1:
                parents[:] = chunk_parents(parents.copy(), chunk)
            states[-1].nodes[: trace.n_blocks, DEPTH] //= unit
    return states[0], states[1], states[2]


def make_rules(trace: Trace, config: CacheConfig, costs: CostProfile) -> Rules:
    """Engine semantics and cost coefficients in the types that the loop was compiled for."""
    return Rules(
        store_mode=STORE_CODES[config.store_mode],
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
        last_tokens=config.last_tokens,
    )
