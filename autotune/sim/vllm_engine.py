"""Run a trace in vllm mode, compiled or plainly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.sim import columns, tiers
from autotune.sim.config import CacheConfig
from autotune.sim.journal import N_EVICTED, Journal
from autotune.sim.prepare import make_result, make_rules, make_tiers
from autotune.sim.result import CacheResult
from autotune.sim.stream import make_stream, require_distinct_blocks, without_partial_blocks
from autotune.sim.vllm_reference import VllmReferenceCache
from autotune.sim.vllm_runs import run_vllm_instant, run_vllm_service


@dataclass(frozen=True, slots=True)
class VllmRun:
    """What a run in vllm mode came to.

    Attributes:
        result: The counts.
        fates: ``(n_accesses,)`` int8 of :mod:`autotune.sim.journal`; chunk ``c`` of a request at
            ``result.trace.block_offsets[request] + c``.
        evicted: Chunks that left the host, in order; empty where a compiled run was not asked for them.
        calls: ``r`` where request r gets its turn, ``-1 - r`` where it ends; empty likewise.
        start_ns: ``(n_requests,)`` int64 when each got its turn.
        end_ns: ``(n_requests,)`` int64 when each ended.
    """

    result: CacheResult
    fates: npt.NDArray[np.int8]
    evicted: npt.NDArray[np.int32]
    calls: npt.NDArray[np.int64]
    start_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]


def run_vllm(trace: Trace, config: CacheConfig, costs: CostProfile, *, log: bool = False) -> VllmRun:
    """Every request of the trace, compiled where both policies have a twin for it, else plainly.

    Args:
        trace: The requests.
        config: An engine with vLLM's semantics.
        costs: The cost model.
        log: Whether evictions and calls are noted too.

    Raises:
        SimulationError: the engine has other semantics.
        TraceError: the trace carries no blocks, or a request names a block twice.
        PolicyError: a policy's parameters are not valid.
    """
    if not (tiers.has_compiled_twin(config.device_policy) and tiers.has_compiled_vllm_twin(config.host_policy)):
        return run_vllm_plainly(trace, config, costs)
    trace = _as_vllm_sees_it(trace, config)
    stream, rules = make_stream(trace, config), make_rules(trace, config, costs)
    device, host, _ = make_tiers(trace, config, costs)
    out = np.zeros((trace.n_requests, columns.N_COLUMNS), np.int32)
    next_use_of = np.zeros(trace.n_blocks if config.is_clairvoyant else 0, np.int64)
    wait_ns, end_ns = np.zeros(trace.n_requests, np.int64), stream.arrival_ns.copy()
    journal = _journal(trace, log=log)
    if config.timing is Timing.SERVICE:
        running = np.zeros_like(wait_ns)
        run_vllm_service(stream, device, host, rules, next_use_of, out, journal, wait_ns, end_ns, running)
    else:
        run_vllm_instant(stream, device, host, rules, next_use_of, out, journal)
    return VllmRun(
        result=make_result(trace, config, costs, out, wait_ns),
        fates=journal.fates,
        evicted=journal.evicted[: journal.counts[N_EVICTED]].copy(),
        calls=journal.calls,
        start_ns=stream.arrival_ns + wait_ns,
        end_ns=end_ns,
    )


def run_vllm_plainly(trace: Trace, config: CacheConfig, costs: CostProfile) -> VllmRun:
    """The same in plain Python: the reference that the compiled loop is tested against.

    Raises:
        SimulationError: the engine has other semantics.
        TraceError: the trace carries no blocks, or a request names a block twice.
        PolicyError: a policy's parameters are not valid.
    """
    trace = _as_vllm_sees_it(trace, config)
    cache = VllmReferenceCache(trace, config, costs)
    cache.run()
    return VllmRun(
        result=make_result(trace, config, costs, cache.out, cache.wait_ns),
        fates=cache.fates,
        evicted=np.array(cache.evicted, np.int32),
        calls=np.array(cache.calls, np.int64),
        start_ns=make_stream(trace, config).arrival_ns + cache.wait_ns,
        end_ns=cache.end_ns,
    )


def _as_vllm_sees_it(trace: Trace, config: CacheConfig) -> Trace:
    if config.semantics is not EngineSemantics.VLLM_0_32:
        raise SimulationError("this needs an engine with the semantics of vLLM", got=f"engine {config.semantics}")
    trace.require_blocks()
    require_distinct_blocks(trace, "offers its blocks to vLLM's host tier", "use --engine canonical")
    return without_partial_blocks(trace)


def _journal(trace: Trace, *, log: bool) -> Journal:
    return Journal(
        fates=np.zeros(trace.n_accesses, np.int8),
        evicted=np.zeros(trace.n_accesses if log else 0, np.int32),
        calls=np.zeros(2 * trace.n_requests if log else 0, np.int64),
        counts=np.zeros(2, np.int64),
    )
