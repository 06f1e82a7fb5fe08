"""What presses on a device: running requests, idle blocks, bandwidth, or prefixes that are never found again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.advise.prefix import Divergence, divergences
from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError, TraceError
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache

DEFAULT_IDLE_S = 60.0
_SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Observations:
    """What the advice rests on; from a trace, or from a running engine's counters, which leave some of it unknown.

    Attributes:
        device_bytes: KV that the device holds.
        footprint_bytes: KV of all different blocks; ``None`` where unknown, and so below.
        running_bytes: KV of requests that run at once, 95th percentile over time.
        running_tokens: Tokens of the longest contexts that run at once, likewise.
        mean_context_tokens: Tokens of a request when it ends, mean.
        idle_frac: Share of the blocks on a full device that were not used for ``idle_s``.
        idle_return_frac: Share of those that are used again later.
        idle_s: How long a block must be unused to count as idle.
        device_hit_frac: Share of block accesses that LRU finds on the device.
        unbounded_hit_frac: The same of a cache without limit.
        read_frac: Share of KV in what a decode step reads; ``None`` where the weights are not known.
        break_even_tokens: Length from which loading takes less than recomputing; ``None`` where it never does.
        places: Where prefixes diverge.
        host_hit_frac: Share of the tokens not found on the device that a host tier had; ``None`` without one.
        requests_short: Requests that were preempted, or that wait for space now.
    """

    device_bytes: int
    footprint_bytes: int | None
    running_bytes: int
    running_tokens: int
    mean_context_tokens: float
    idle_frac: float | None
    idle_return_frac: float | None
    idle_s: float
    device_hit_frac: float
    unbounded_hit_frac: float | None
    read_frac: float | None
    break_even_tokens: int | None
    places: tuple[Divergence, ...]
    host_hit_frac: float | None = None
    requests_short: int = 0


def observe(
    trace: Trace,
    costs: CostProfile,
    *,
    device_bytes: int,
    weights_bytes: int | None,
    break_even_tokens: int | None,
    itl_s: float = 0.008,
    idle_s: float = DEFAULT_IDLE_S,
) -> Observations:
    """Measure a trace on a device under LRU.

    Args:
        trace: Requests with blocks.
        costs: The cost model, for how long requests run.
        device_bytes: KV that the device holds.
        weights_bytes: What a step reads besides KV.
        break_even_tokens: Length from which loading pays.
        itl_s: Seconds per output token.
        idle_s: How long a block must be unused to count as idle.

    Raises:
        TraceError: the trace has no blocks or no requests.
        SimulationError: the device holds no block.
    """
    trace.require_blocks()
    if not trace.n_requests:
        raise TraceError("advice needs requests", got="a trace without any")
    block_bytes = trace.block_tokens * costs.kv_bytes_per_token
    capacity = device_bytes // block_bytes
    if capacity < 1:
        got = f"{device_bytes:,} bytes for blocks of {block_bytes:,}"
        raise SimulationError("the device must hold a block", got=got, remedy="give more with --device-gib")
    running = running_tokens(trace, costs, itl_s)
    idle, returning = _idle(trace, capacity, idle_s)
    lru = simulate_cache(trace, CacheConfig(device_blocks=capacity), costs).totals()
    unbounded = simulate_cache(trace, CacheConfig(device_blocks=max(1, trace.n_blocks)), costs).totals()
    running_bytes = round(float(np.quantile(running, 0.95))) * costs.kv_bytes_per_token
    return Observations(
        device_bytes=device_bytes,
        footprint_bytes=int(np.count_nonzero(np.bincount(trace.block_ids, minlength=1))) * block_bytes,
        running_bytes=running_bytes,
        running_tokens=round(float(np.quantile(running, 0.95))),
        mean_context_tokens=float((trace.input_tokens + trace.output_tokens).mean()),
        idle_frac=idle,
        idle_return_frac=returning,
        idle_s=idle_s,
        device_hit_frac=lru.device_hit_blocks / max(1, lru.accesses),
        unbounded_hit_frac=unbounded.device_hit_blocks / max(1, unbounded.accesses),
        read_frac=None if weights_bytes is None else running_bytes / (running_bytes + weights_bytes),
        break_even_tokens=break_even_tokens,
        places=divergences(trace),
    )


def running_tokens(trace: Trace, costs: CostProfile, itl_s: float) -> npt.NDArray[np.float64]:
    """Tokens of all requests that run at the start of each, ``(n_requests,)``, if none had to wait.

    A request runs from its arrival through its prefill until its last token, and holds all its tokens by then.
    """
    arrival_s = trace.arrival_s
    tokens = (trace.input_tokens.astype(np.int64) + trace.output_tokens).astype(np.float64)
    end_s = arrival_s + costs.prefill_s(trace.input_tokens) + itl_s * trace.output_tokens
    order = np.argsort(end_s, kind="stable")
    ended = np.concatenate(([0.0], np.cumsum(tokens[order])))
    gone: npt.NDArray[np.float64] = ended[np.searchsorted(end_s[order], arrival_s, side="left")]
    begun: npt.NDArray[np.float64] = np.cumsum(tokens)
    return begun - gone


def _idle(trace: Trace, capacity: int, idle_s: float) -> tuple[float, float]:
    """Share of a full LRU's blocks that are idle, and share of those that come back; means over sampled times."""
    time_s = np.repeat(trace.arrival_s, np.diff(trace.block_offsets))
    shares, returns = [], []
    last_use = np.full(trace.n_blocks, -1, np.int64)
    final_use = np.full(trace.n_blocks, -1, np.int64)
    final_use[trace.block_ids] = np.arange(trace.n_accesses)
    at = 0
    for stop in np.linspace(0, trace.n_accesses, _SAMPLES + 1, dtype=np.int64)[1:].tolist():
        last_use[trace.block_ids[at:stop]] = np.arange(at, stop)
        at = stop
        held = np.flatnonzero(last_use >= 0)
        if len(held) < capacity:
            continue
        newest = held[np.argpartition(last_use[held], len(held) - capacity)[len(held) - capacity :]]
        idle = newest[time_s[stop - 1] - time_s[last_use[newest]] > idle_s]
        shares.append(len(idle) / capacity)
        if len(idle):
            returns.append(float(np.count_nonzero(final_use[idle] >= stop)) / len(idle))
    return (float(np.mean(shares)) if shares else 0.0, float(np.mean(returns)) if returns else 0.0)
