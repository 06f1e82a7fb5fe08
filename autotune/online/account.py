"""What an online run gained, with what its store mode gained and what learning gained apart."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Arm, StoreMode
from autotune.online.settings import OnlineSettings
from autotune.online.simulate import OnlineResult
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.sim.result import CacheResult, Totals

_LRU = PolicySpec("lru")
_RSS_UNIT_BYTES = 1024  # of ru_maxrss on Linux


@dataclass(frozen=True, slots=True)
class Gain:
    """Shares of stock LRU's critical-path seconds that were saved, below 0 where more were spent.

    Attributes:
        mode_frac: By the store mode alone: one LRU over both tiers with it against LRU with eager stores.
        learning_frac: By what was learned: the run against that one LRU.
        total_frac: By both: their sum.
    """

    mode_frac: float
    learning_frac: float
    total_frac: float

    @classmethod
    def of(cls, stock_s: float, joint_s: float, live_s: float) -> Gain:
        """From the seconds of stock LRU, of one LRU over both tiers with the store mode, and of the run."""
        if stock_s <= 0.0:
            return cls(0.0, 0.0, 0.0)
        return cls((stock_s - joint_s) / stock_s, (joint_s - live_s) / stock_s, (stock_s - live_s) / stock_s)


@dataclass(frozen=True, slots=True)
class Memory:
    """Most memory that the process held, in bytes.

    Attributes:
        peak_bytes: Up to the end of the run, its fits included.
        before_bytes: Up to its start.
    """

    peak_bytes: int
    before_bytes: int

    @property
    def grown_bytes(self) -> int:
        """By how much the run raised it."""
        return self.peak_bytes - self.before_bytes


@dataclass(frozen=True, slots=True)
class LruRuns:
    """LRU on the same requests, each in a run of its own.

    Attributes:
        stock: With eager stores, as engines do by themselves.
        staged: With the store mode of the learned rule, as an engine with that mode does by itself.
        joint: One LRU over both tiers with that mode, in which the loop begins and with which its guard compares.
    """

    stock: CacheResult
    staged: CacheResult
    joint: CacheResult


@dataclass(frozen=True, slots=True)
class OnlineAccount:
    """An online run beside LRU, on the measured requests.

    Attributes:
        stock: LRU with eager stores, as engines do by themselves.
        staged: LRU with the store mode of the learned rule, as an engine with that mode does by itself.
        joint: One LRU over both tiers with that mode, in which the loop begins.
        live: The run.
        shadows: What the guard compared: the shadow of each way to run at the moments of the live cache; sampled ones
            count only what they saw.
        gain: What was gained, apart.
        accesses_per_s: Block accesses per second of this machine's time, with all fits.
        fit_seconds: Seconds of every fit.
        memory: Memory of this process.
    """

    stock: Totals
    staged: Totals
    joint: Totals
    live: Totals
    shadows: Mapping[Arm, Totals]
    gain: Gain
    accesses_per_s: float
    fit_seconds: tuple[float, ...]
    memory: Memory


def lru_runs(trace: Trace, engine: CacheConfig, costs: CostProfile, settings: OnlineSettings | None = None) -> LruRuns:
    """LRU on every tier.

    Args:
        trace: The requests.
        engine: The engine with the store mode of the learned rule.
        costs: The cost model.
        settings: Those of the loop, whose write budget its LRU keeps too.
    """
    settings = settings or OnlineSettings()
    plain = replace(engine, device_policy=_LRU, host_policy=_LRU, disk_policy=_LRU)
    is_eager = plain.store_mode is StoreMode.EAGER
    stock = simulate_cache(trace, replace(plain, store_mode=StoreMode.EAGER), costs)
    staged = stock if is_eager else simulate_cache(trace, plain, costs)
    if is_eager and settings.write is None:
        return LruRuns(stock, staged, stock)
    return LruRuns(stock, staged, simulate_joint_lru(trace, plain, costs, write=settings.write))


def account_for(result: OnlineResult, lru: LruRuns, start: int, memory: Memory) -> OnlineAccount:
    """The account of a run, from request ``start`` on.

    Args:
        result: The run.
        lru: LRU on the same requests.
        start: First request that counts.
        memory: Of the process.
    """
    stock, staged, joint, live = (cache.totals(start) for cache in (lru.stock, lru.staged, lru.joint, result.cache))
    return OnlineAccount(
        stock=stock,
        staged=staged,
        joint=joint,
        live=live,
        shadows={arm: shadow.totals(start) for arm, shadow in result.shadows.items()},
        gain=Gain.of(stock.cost_s, joint.cost_s, live.cost_s),
        accesses_per_s=float(np.diff(result.cache.trace.block_offsets).sum()) / max(result.wall_s, 1e-9),
        fit_seconds=tuple(fit.fit_seconds for fit in result.fits),
        memory=memory,
    )


def peak_rss_bytes() -> int:
    """Most memory that this process held at any moment so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES
