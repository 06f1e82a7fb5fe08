"""A case: a part of a trace on an engine, with what LRU and the clairvoyant come to on it.

The loop always runs from the start of its trace; only the seconds of the measured part count. A case never sees a
request from after that part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.core.costs import CostProfile
from autotune.core.errors import SearchError
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Tier, Timing
from autotune.online.settings import OnlineSettings
from autotune.online.simulate import simulate_online
from autotune.search.online.joint_setting import JointSetting
from autotune.search.online.setting import LoopSetting
from autotune.search.problem import MIN_REQUESTS, turnover_s
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import Totals

CLAIRVOYANT = PolicySpec("clairvoyant_seconds")
HOST_PER_DEVICE = 4


@dataclass(frozen=True, slots=True)
class Engines:
    """Engines to run a trace on.

    Attributes:
        cells: Capacity of the device as a share of the trace's footprint (the host is four times as large), and when a
            request's blocks become idle.
        costs: The cost model.
    """

    cells: tuple[tuple[float, Timing], ...]
    costs: CostProfile

    def configs(self, trace: Trace) -> list[CacheConfig]:
        """The engines for a trace, LRU on both tiers and eager stores."""
        sizes = [(max(1, round(frac * trace.n_blocks)), timing) for frac, timing in self.cells]
        return [CacheConfig(n, HOST_PER_DEVICE * n, timing=timing) for n, timing in sizes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting came to on a case.

    Attributes:
        closed_frac: Share of the gap between LRU and the clairvoyant that was closed, in net seconds.
        shadow_frac: The same for the shadow that obeys what was learned whatever the guard says.
        saved_frac: Share of LRU's critical-path seconds that was saved.
        stored_bytes: Bytes copied to the host.
    """

    closed_frac: float
    shadow_frac: float
    saved_frac: float
    stored_bytes: int

    def share(self, shadow_weight: float) -> float:
        """Share of the gap closed, of which the shadow's has so much weight."""
        return (1.0 - shadow_weight) * self.closed_frac + shadow_weight * self.shadow_frac


@dataclass(frozen=True, slots=True)
class Case:
    """One trace, cut at the end of what is measured, on one engine.

    Attributes:
        name: Trace, capacity and timing.
        trace: The requests up to the end of the measured part.
        config: The engine; a setting says the store mode.
        costs: The cost model.
        start: First request that counts.
        lru: What LRU with eager stores comes to from there on.
        clairvoyant: The same with a host that knows the future of this trace, in seconds.
    """

    name: str
    trace: Trace
    config: CacheConfig
    costs: CostProfile
    start: int
    lru: Totals
    clairvoyant: Totals

    @property
    def gap_s(self) -> float:
        """Seconds between LRU and the clairvoyant."""
        return self.clairvoyant.net_seconds_saved - self.lru.net_seconds_saved

    def evaluate(self, setting: LoopSetting | JointSetting, base: OnlineSettings) -> Outcome:
        """Run what a setting says; what it does not name of the loop is as in ``base``."""
        if isinstance(setting, LoopSetting):
            return self._loop(replace(self.config, store_mode=setting.store_mode), setting, base)
        config = setting.engine(self.config, self.trace.block_tokens)
        return self._rank(config, setting.rank) if setting.loop is None else self._loop(config, setting.loop, base)

    def _rank(self, config: CacheConfig, setting: Setting | None) -> Outcome:
        """The rank rule, in force from the first request on; its turnover is that of LRU before the measured part."""
        past = self.trace.slice(0, max(self.start, MIN_REQUESTS))
        turnover = turnover_s(simulate_cache(past, config, self.costs), Tier.HOST)
        policy = (setting or LRU_SETTING).policy_spec(turnover)
        totals = simulate_cache(self.trace, replace(config, host_policy=policy), self.costs).totals(self.start)
        closed_frac = self._gain_s(totals) / self.gap_s
        return Outcome(closed_frac, closed_frac, self._gain_s(totals) / self.lru.cost_s, totals.stored_bytes)

    def _loop(self, config: CacheConfig, setting: LoopSetting, base: OnlineSettings) -> Outcome:
        result = simulate_online(self.trace, config, self.costs, setting.online(base), hints_of(self.trace))
        live, shadow = result.cache.totals(self.start), result.learned.totals(self.start)
        return Outcome(
            closed_frac=self._gain_s(live) / self.gap_s,
            shadow_frac=self._gain_s(shadow) / self.gap_s,
            saved_frac=self._gain_s(live) / self.lru.cost_s,
            stored_bytes=live.stored_bytes,
        )

    def _gain_s(self, totals: Totals) -> float:
        return totals.net_seconds_saved - self.lru.net_seconds_saved


def cases_of(name: str, trace: Trace, engines: Engines, part: tuple[float, float]) -> list[Case]:
    """The cases of one trace.

    Args:
        name: What to call the trace.
        trace: All of its requests; capacities are shares of all of its blocks.
        engines: On what to run it.
        part: What is measured, from and to as shares of the trace's time.

    Raises:
        SearchError: too few requests are measured, or there is nothing to gain on an engine.
    """
    start, stop = (trace.first_request_at(trace.arrival_s[0] + share * trace.span_s) for share in part)
    if part[1] >= 1.0:
        stop = trace.n_requests
    if stop - start < MIN_REQUESTS:
        raise SearchError(
            f"a case measures at least {MIN_REQUESTS} requests",
            got=f"{stop - start} between {part[0]:.0%} and {part[1]:.0%} of {name}",
            remedy="give a longer trace or a larger part",
        )
    past = trace.slice(0, stop)
    return [_case(name, past, trace.n_blocks, config, engines.costs, start) for config in engines.configs(trace)]


def _case(name: str, trace: Trace, footprint: int, config: CacheConfig, costs: CostProfile, start: int) -> Case:
    lru = simulate_cache(trace, config, costs).totals(start)
    best = simulate_cache(trace, replace(config, host_policy=CLAIRVOYANT), costs).totals(start)
    title = f"{name} {100 * config.device_blocks / footprint:.2g} % {config.timing}"
    if best.net_seconds_saved <= lru.net_seconds_saved:
        raise SearchError(
            "a case needs something to gain",
            got=f"a clairvoyant host that saves nothing against LRU on {title}",
            remedy="give other capacities or a longer trace",
        )
    return Case(title, trace, config, costs, start, lru, best)


def cheapest_first(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The cases by how long they take, roughly."""
    return tuple(sorted(cases, key=lambda case: (case.trace.n_accesses, case.name)))
