"""What an online run gained, with what its store mode gained and what learning gained apart."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import StoreMode
from autotune.online.simulate import OnlineResult
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import CacheResult, Totals

_LRU = PolicySpec("lru")
_RSS_UNIT_BYTES = 1024  # of ru_maxrss on Linux


@dataclass(frozen=True, slots=True)
class Gain:
    """Shares of stock LRU's critical-path seconds that were saved, below 0 where more were spent.

    Attributes:
        mode_frac: By the store mode alone: LRU with it against LRU with eager stores.
        learning_frac: By what was learned: the run against LRU with its store mode.
        total_frac: By both: their sum.
    """

    mode_frac: float
    learning_frac: float
    total_frac: float

    @classmethod
    def of(cls, stock_s: float, staged_s: float, live_s: float) -> Gain:
        """From the seconds of stock LRU, of LRU with the store mode, and of the run."""
        if stock_s <= 0.0:
            return cls(0.0, 0.0, 0.0)
        return cls((stock_s - staged_s) / stock_s, (staged_s - live_s) / stock_s, (stock_s - live_s) / stock_s)


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
class OnlineAccount:
    """An online run beside LRU, on the measured requests.

    Attributes:
        stock: LRU with eager stores, as engines do by themselves, in a run of its own.
        staged: LRU with the store mode of the learned rule, likewise.
        live: The run.
        shadows: What the guard compared: the shadow caches ``stock``, ``staged`` and ``learned`` at the moments of the
            live one; sampled ones count only what they saw. Without another store mode ``staged`` is ``stock``.
        gain: What was gained, apart.
        accesses_per_s: Block accesses per second of this machine's time, with all fits.
        fit_seconds: Seconds of every fit.
        memory: Memory of this process.
    """

    stock: Totals
    staged: Totals
    live: Totals
    shadows: tuple[tuple[str, Totals], ...]
    gain: Gain
    accesses_per_s: float
    fit_seconds: tuple[float, ...]
    memory: Memory


def lru_runs(trace: Trace, engine: CacheConfig, costs: CostProfile) -> tuple[CacheResult, CacheResult]:
    """LRU on every tier with eager stores, and with those of the engine."""
    plain = replace(engine, device_policy=_LRU, host_policy=_LRU, disk_policy=_LRU)
    stock = simulate_cache(trace, replace(plain, store_mode=StoreMode.EAGER), costs)
    return stock, stock if plain.store_mode is StoreMode.EAGER else simulate_cache(trace, plain, costs)


def account_for(
    result: OnlineResult, stock: CacheResult, staged: CacheResult, start: int, memory: Memory
) -> OnlineAccount:
    """The account of a run, from request ``start`` on.

    Args:
        result: The run.
        stock: LRU with eager stores on the same requests.
        staged: LRU with the store mode of the learned rule.
        start: First request that counts.
        memory: Of the process.
    """
    has_stages = staged.config.store_mode is not StoreMode.EAGER
    shadows = (
        ("stock", result.plain),
        ("staged", result.staged if has_stages else result.plain),
        ("learned", result.learned),
    )
    stock_totals, staged_totals, live = (cache.totals(start) for cache in (stock, staged, result.cache))
    return OnlineAccount(
        stock=stock_totals,
        staged=staged_totals,
        live=live,
        shadows=tuple((name, shadow.totals(start)) for name, shadow in shadows),
        gain=Gain.of(stock_totals.cost_s, staged_totals.cost_s, live.cost_s),
        accesses_per_s=float(np.diff(result.cache.trace.block_offsets).sum()) / max(result.wall_s, 1e-9),
        fit_seconds=tuple(fit.fit_seconds for fit in result.fits),
        memory=memory,
    )


def peak_rss_bytes() -> int:
    """Most memory that this process held at any moment so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES
