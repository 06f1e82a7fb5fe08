"""One tuning problem: a trace split in time, a simulated engine, its costs, and what a setting comes to on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.errors import SearchError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import WriteBudget
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.sim.learned_rules import HazardRules
from autotune.sim.obeying import simulate_rules
from autotune.sim.queueing import QueueConfig, QueueResult
from autotune.sim.result import CacheResult, Seconds, Totals
from autotune.sim.serving import latencies

WARM_UP_FRAC = 0.1
MIN_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one setting, or any policy, came to.

    Attributes:
        cache: Per-request outcome of the cache.
        measured: First and one past the last request that count.
        queue: Latencies of the measured requests; None where no queue was asked for.
    """

    cache: CacheResult
    measured: tuple[int, int]
    queue: QueueResult | None = None

    @property
    def totals(self) -> Totals:
        """Sums over the measured requests."""
        return self.cache.totals(*self.measured)

    def window_cost_s(self, n_windows: int) -> Seconds:
        """``(n_windows,)`` critical-path seconds in windows of equally many requests."""
        return window_sums(self.cache.cost_s()[slice(*self.measured)], n_windows)


def window_sums(values: Seconds, n_windows: int) -> Seconds:
    """``(min(n_windows, n_requests),)`` sums over consecutive windows of equally many requests."""
    n_windows = max(1, min(n_windows, len(values)))
    edges = np.linspace(0, len(values), n_windows + 1).astype(np.int64)
    sums: npt.NDArray[np.float64] = np.diff(np.concatenate(([0.0], np.cumsum(values)))[edges])
    return sums


@dataclass(frozen=True)
class Problem:
    """A trace, an engine and its costs.

    Attributes:
        trace: The requests; a part of a trace is made with :meth:`until`.
        engine: The simulated engine with LRU on every tier.
        costs: The cost model.
        ranked: The tier that the tuned policy governs.
        queue: The queueing model; None where latencies are not asked for.
        write: What a learned rule, and the LRU that it is held beside, may store to the host; None = as much as comes.
    """

    trace: Trace
    engine: CacheConfig
    costs: CostProfile
    ranked: Tier
    queue: QueueConfig | None = None
    write: WriteBudget | None = None

    def until(self, time_s: float) -> Problem:
        """The same problem on the requests before ``time_s``.

        Raises:
            SearchError: fewer than 20 requests are left.
        """
        stop = self.trace.first_request_at(self.trace.arrival_s[0] + time_s)
        if stop < MIN_REQUESTS:
            raise SearchError(
                f"tuning needs at least {MIN_REQUESTS} requests in the past",
                got=f"{stop} before {time_s:.0f} s",
                remedy="give a longer trace, or a larger train_frac",
            )
        return replace(self, trace=self.trace.slice(0, stop))

    @cached_property
    def warm(self) -> tuple[int, int]:
        """All requests but those of the first tenth of the time, which fill the caches."""
        trace = self.trace
        return trace.first_request_at(trace.arrival_s[0] + trace.span_s * WARM_UP_FRAC), trace.n_requests

    @cached_property
    def baseline(self) -> Evaluation:
        """LRU on the warm part."""
        return self.evaluate(LRU_SETTING)

    def turnover_s(self, engine: CacheConfig | None = None) -> float:
        """Seconds in which the ranked tier replaces its content under LRU: capacity over insertion rate."""
        engine = engine or self.engine
        cache = self.baseline.cache if engine == self.engine else simulate_cache(self.trace, engine, self.costs)
        return turnover_s(cache, self.ranked)

    @property
    def own_setting(self) -> Setting:
        """LRU's setting with what the engine has where a setting may also say "as given"."""
        engine = self.engine
        share = engine.device_blocks / (engine.device_blocks + engine.host_blocks)
        depth = self.queue.prefetch_depth if self.queue else None
        return replace(LRU_SETTING, resident_frac=share, prefetch_depth=depth)

    def configure(self, setting: Setting) -> CacheConfig:
        """The simulated engine under a setting."""
        split = self._split(setting.resident_frac)
        engine = replace(
            split,
            min_load_blocks=-(-setting.min_load_tokens // self.trace.block_tokens),
            chunk_blocks=_chunk_blocks(split, setting.chunk_blocks),
        )
        spec = setting.policy_spec(0.0 if setting.is_lru else self.turnover_s(split))
        return with_policy(engine, self.ranked, spec)

    def queue_under(self, setting: Setting) -> QueueConfig | None:
        """The queueing model under a setting; None where latencies are not asked for."""
        if self.queue is None or setting.prefetch_depth is None:
            return self.queue
        return replace(self.queue, prefetch_depth=setting.prefetch_depth)

    def evaluate(self, setting: Setting, measured: tuple[int, int] | None = None) -> Evaluation:
        """Simulate a setting; latencies too where the problem has a queue."""
        return self.evaluate_engine(self.configure(setting), measured, self.queue_under(setting))

    def evaluate_engine(
        self, engine: CacheConfig, measured: tuple[int, int] | None = None, queue: QueueConfig | None = None
    ) -> Evaluation:
        """Simulate any engine."""
        cache = simulate_cache(self.trace, engine, self.costs)
        measured = measured or self.warm
        return Evaluation(cache, measured, latencies(cache, queue, measured) if queue else None)

    def evaluate_rules(
        self, engine: CacheConfig, rules: HazardRules, measured: tuple[int, int] | None = None
    ) -> Evaluation:
        """Simulate an engine that obeys a learned rule from the first request on."""
        cache = simulate_rules(self.trace, engine, self.costs, rules, write=self.write)
        measured = measured or self.warm
        return Evaluation(cache, measured, latencies(cache, self.queue, measured) if self.queue else None)

    def evaluate_joint_lru(self, engine: CacheConfig, measured: tuple[int, int] | None = None) -> Evaluation:
        """Simulate one LRU over both tiers of an engine."""
        return Evaluation(simulate_joint_lru(self.trace, engine, self.costs, write=self.write), measured or self.warm)

    def _split(self, resident_frac: float | None) -> CacheConfig:
        """The engine with share p of the device and host budget on the device."""
        if resident_frac is None or not self.engine.host_blocks:
            return self.engine
        total = self.engine.device_blocks + self.engine.host_blocks
        device = min(max(1, round(total * resident_frac)), total - 1)
        return replace(self.engine, device_blocks=device, host_blocks=total - device)


def _chunk_blocks(engine: CacheConfig, wanted: int) -> int:
    """Chunks as wanted where the engine stores several blocks at once and every tier below the device holds a chunk."""
    if engine.store_mode is not StoreMode.EAGER:
        return 1
    return max(1, min([wanted, *(blocks for blocks in (engine.host_blocks, engine.disk_blocks) if blocks)]))


def ranked_tier(engine: CacheConfig) -> Tier:
    """The tier that a policy given by name, and the tuned one, governs: the host where there is one."""
    return Tier.HOST if engine.host_blocks else Tier.DEVICE


def with_policy(engine: CacheConfig, tier: Tier, spec: PolicySpec) -> CacheConfig:
    """The engine with another policy on one tier."""
    name = ("device_policy", "host_policy", "disk_policy")[tier]
    return replace(engine, **{name: spec})  # type: ignore[arg-type]


def turnover_s(cache: CacheResult, tier: Tier) -> float:
    """Seconds in which a tier replaced its whole content: capacity over insertion rate.

    A tier that never filled up within the trace is given the time it would have taken at that rate.
    """
    capacity = cache.config.capacities[tier]
    if tier is Tier.DEVICE:
        inserted = int(np.diff(cache.trace.block_offsets).sum() - cache.device_hit.sum())
    else:
        inserted = int((cache.stored if tier is Tier.HOST else cache.stored_disk).sum())
    span_s = cache.trace.span_s
    if inserted == 0 or span_s == 0.0:
        return max(span_s, 1.0)
    return capacity * span_s / inserted
