"""The peers: what each of them is, and what it may find out on the past."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import peers_learned
import peers_traces
import peers_web_caches
from peers_cells import WARM_UP_FRAC, Cell

from autotune import api
from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier, Timing
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.problem import Problem, ranked_tier, with_policy
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import CacheResult

HOST_PER_DEVICE = 4
LINK_GB_PER_S = 40.0
THRESHOLDS = (2, 3, 4, 6, 8)
ALPHAS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LRU, BOUND = "LRU", "clairvoyant, seconds"


@dataclass(frozen=True)
class Task:
    """A cell with everything that a policy runs on.

    Attributes:
        cell: The cell.
        trials: Settings that a search may try.
    """

    cell: Cell
    trials: int

    @cached_property
    def trace(self) -> Trace:
        """The requests."""
        return peers_traces.opened(self.cell.trace, self.cell.seed)

    @cached_property
    def costs(self) -> CostProfile:
        """Llama-3.1-8B on an H100 with a link of 40 GB/s."""
        return api.cost_profile("llama-3.1-8b", "h100-sxm", LINK_GB_PER_S)[1]

    @cached_property
    def engine(self) -> CacheConfig:
        """LRU on both tiers, eager stores."""
        device = max(1, round(self.trace.n_blocks * self.cell.device_frac))
        host = HOST_PER_DEVICE * device if self.cell.tiers == "two" else 0
        return CacheConfig(device, host, timing=Timing(self.cell.timing))

    @cached_property
    def past(self) -> Problem:
        """What a policy may look at before it is judged: the first fifth of the time, which nothing is counted on."""
        problem = Problem(self.trace, self.engine, self.costs, self.ranked)
        return problem.until(WARM_UP_FRAC * self.trace.span_s)

    @property
    def ranked(self) -> Tier:
        """The tier that a policy governs; the device keeps LRU where there is a host."""
        return ranked_tier(self.engine)

    def simulate(self, spec: PolicySpec) -> CacheResult:
        """A policy on the ranked tier."""
        return simulate_cache(self.trace, with_policy(self.engine, self.ranked, spec), self.costs)

    def best_on_past(self, specs: Iterable[PolicySpec]) -> PolicySpec:
        """The policy that costs least on the past; the first of equals."""
        costs = {spec: self.past.evaluate_engine(with_policy(self.engine, self.ranked, spec)) for spec in specs}
        return min(costs, key=lambda spec: costs[spec].totals.cost_s)


Outcome = tuple[CacheResult, str]
Run = Callable[[Task], Outcome | None]


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of the tables.

    Attributes:
        name: In the tables.
        run: Simulates it; gives the result and what it found on the past in words, or nothing where it cannot run.
        tiers: Tiers on which it is compared.
        is_plain: Whether it runs in plain Python, which long traces leave no time for.
        is_bound: Whether it knows the future.
    """

    name: str
    run: Run
    tiers: tuple[str, ...] = ("two", "one")
    is_plain: bool = False
    is_bound: bool = False


def _named(spec: PolicySpec, task: Task) -> Outcome:
    return task.simulate(spec), ""


def _lru_in(mode: StoreMode, task: Task) -> Outcome:
    return simulate_cache(task.trace, replace(task.engine, store_mode=mode), task.costs), ""


def _two_hit(task: Task) -> Outcome:
    spec = task.best_on_past(PolicySpec.of("two_hit", threshold=threshold) for threshold in THRESHOLDS)
    return task.simulate(spec), f"threshold {dict(spec.params)['threshold']:g}"


def _marconi(task: Task) -> Outcome:
    span_s = task.past.turnover_s()
    spec = task.best_on_past(PolicySpec.of("marconi", alpha=alpha, span_s=span_s) for alpha in ALPHAS)
    return task.simulate(spec), f"α {dict(spec.params)['alpha']:g}, span {span_s:.0f} s"


def _tuned(task: Task) -> Outcome:
    plan = StudyPlan(trials=task.trials, seed=task.cell.seed)
    setting = best_of(run_study(task.past, load_space(), NetSeconds(), plan)).setting
    cache = simulate_cache(task.trace, task.past.configure(setting), task.costs)
    words = f"λ {setting.lambda_recency:.3g}, τ {setting.tau_turnovers:.2g} turnovers, cost {setting.cost_weight:.2g}"
    return cache, words


def _web(kind: str, task: Task) -> Outcome | None:
    cache = peers_web_caches.simulate(kind, task.trace, task.engine, task.costs)
    return None if cache is None else (cache, "")


def _online(mode: StoreMode, task: Task) -> Outcome:
    return peers_learned.online(task.trace, task.engine, task.costs, mode, task.cell.seed)


def _learned_once(mode: StoreMode, task: Task) -> Outcome:
    until_s = WARM_UP_FRAC * task.trace.span_s
    return peers_learned.learned_once(task.trace, task.engine, task.costs, mode, task.cell.seed, until_s)


def peers() -> Sequence[Peer]:
    """All peers in the order of the tables."""
    classical = {"ARC": "arc", "S3-FIFO": "s3fifo", "SIEVE": "sieve", "W-TinyLFU": "wtinylfu", "GDSF": "gdsf"}
    rows = [
        Peer(LRU, partial(_named, PolicySpec("lru"))),
        Peer("LRU, lazy stores", partial(_lru_in, StoreMode.LAZY), ("two",)),
        Peer("LRU, exclusive", partial(_lru_in, StoreMode.EXCLUSIVE), ("two",)),
        *(Peer(label, partial(_named, PolicySpec(name))) for label, name in classical.items()),
        Peer("two-hit LRU", _two_hit),
        Peer("evoke's score", partial(_named, PolicySpec("evoke")), is_plain=True),
        Peer("Marconi's score", _marconi, is_plain=True),
        Peer("rank rule, tuned", _tuned),
    ]
    if peers_web_caches.is_installed():
        rows += [Peer(name, partial(_web, name), ("one",), is_plain=True) for name in peers_web_caches.KINDS]
    rows.append(Peer("learned once, lazy", partial(_learned_once, StoreMode.LAZY), ("two",)))
    rows += [Peer(f"online, {mode}", partial(_online, mode), ("two",)) for mode in StoreMode]
    rows.append(Peer("clairvoyant, hits", partial(_named, PolicySpec("clairvoyant")), is_bound=True))
    rows.append(Peer(BOUND, partial(_named, PolicySpec("clairvoyant_seconds")), is_bound=True))
    return rows
