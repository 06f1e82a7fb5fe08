"""Run a trace through the tiered cache, compiled."""

from __future__ import annotations

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.sim import columns, tiers
from autotune.sim.config import CacheConfig
from autotune.sim.loop import run_instant
from autotune.sim.prepare import make_result, make_rules, make_tiers
from autotune.sim.reference import ReferenceCache
from autotune.sim.result import CacheResult
from autotune.sim.service import run_service
from autotune.sim.stream import make_stream, require_distinct_blocks, without_partial_blocks
from autotune.sim.vllm_engine import run_vllm, run_vllm_plainly


def simulate_cache(trace: Trace, config: CacheConfig, costs: CostProfile) -> CacheResult:
    """Run every request of the trace through the configured cache, starting empty.

    Policies without a compiled twin run in the plain loop, which gives the same counts, slowly.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        PolicyError: a policy's parameters are not valid.
    """
    if config.semantics is EngineSemantics.VLLM_0_32:
        return run_vllm(trace, config, costs).result
    trace.require_blocks()
    if config.timing is Timing.SERVICE:
        require_distinct_blocks(trace, "pins its blocks", "use --timing instant")
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
    if config.semantics is EngineSemantics.VLLM_0_32:
        return run_vllm_plainly(trace, config, costs).result
    if config.full_blocks:
        trace = without_partial_blocks(trace)
    cache = ReferenceCache(trace, config, costs)
    cache.run()
    return make_result(trace, config, costs, cache.out, cache.wait_ns)
