"""The serving side of a simulation: whether its load is stable, and the latencies if it is."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.settings import QueueSettings
from autotune.core.trace import Trace
from autotune.core.units import MS_PER_S
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.queueing import (
    QueueConfig,
    QueueResult,
    offered_load,
    require_stable,
    spread_arrivals,
    time_to_first_token,
)
from autotune.sim.result import CacheResult, Seconds

_LRU = PolicySpec("lru")


def under_lru(trace: Trace, engine: CacheConfig, costs: CostProfile, known: CacheResult | None = None) -> CacheResult:
    """The trace under LRU on every tier; ``known`` is it where the engine has LRU anyway."""
    plain = replace(engine, device_policy=_LRU, host_policy=_LRU, disk_policy=_LRU)
    return known if known is not None and known.config == plain else simulate_cache(trace, plain, costs)


def queue_for(
    lru: CacheResult, settings: QueueSettings, *, required: bool, seed: int, start: int = 0
) -> tuple[QueueConfig | None, str]:
    """The queue if LRU keeps up with the load, else none; and why, in words.

    Args:
        lru: The trace under LRU.
        settings: Servers, time scale and link.
        required: Whether latencies were asked for, so that an unstable load is an error.
        seed: Spreads arrivals inside a tick of the trace's clock.
        start: First request that counts.

    Raises:
        SimulationError: latencies are required and LRU does not keep up.
    """
    arrival_s = spread_arrivals(lru.trace, settings.time_scale, seed)
    server_frac = offered_load(arrival_s[start:], _busy_s(lru)[start:], settings.servers)
    link_frac = offered_load(arrival_s[start:], lru.load_s()[start:], 1)
    servers = f"{settings.servers} prefill server{'s' if settings.servers > 1 else ''}"
    shape = f"{servers}, time scale {settings.time_scale:g}"
    try:
        require_stable(server_frac, link_frac, settings.max_load_frac)
    except SimulationError as error:
        if required:
            raise
        return None, f"TTFT is not reported: load {error.got} under LRU with {shape}; {error.remedy}"
    return _config(settings, seed), f"TTFT under a load of {server_frac:.2f} for LRU with {shape}"


def latencies(cache: CacheResult, queue: QueueConfig, measured: tuple[int, int]) -> QueueResult:
    """Latencies of the measured requests; those before them only fill the queue, those after do not matter."""
    low, high = measured
    arrival_s = spread_arrivals(cache.trace, queue.time_scale, queue.seed)[:high]
    return time_to_first_token(arrival_s, _busy_s(cache)[:high], cache.load_s()[:high], queue, low)


def _busy_s(cache: CacheResult) -> Seconds:
    """``(n_requests,)`` seconds that a server is busy: prefill of what was not found, and stores that hold it up."""
    return cache.recompute_s() + cache.store_exposed_s()


def _config(settings: QueueSettings, seed: int) -> QueueConfig:
    return QueueConfig(
        servers=settings.servers,
        time_scale=settings.time_scale,
        prefetch_depth=settings.prefetch_depth,
        overlap_frac=settings.overlap_beta,
        ttft_target_s=settings.ttft_goal_ms / MS_PER_S,
        seed=seed,
    )
