"""The loop in trace time: what a simulated engine does that learns while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.core.types import Arm
from autotune.costs.reuse.boosting import load_trainer
from autotune.online import measure
from autotune.online.loop import Evidence, Learned, OnlineLoop, Step
from autotune.online.past import rules_for
from autotune.online.settings import OnlineSettings
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import Hints
from autotune.sim.result import CacheResult

STEP_REQUESTS = 64


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that the loop did.

    Attributes:
        at_s: When, in trace time.
        request: Requests so far.
        kind: ``fitted``, ``waits``, or the way to run that was taken.
        reason: Why, in words.
    """

    at_s: float
    request: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class OnlineResult:
    """Outcome of an online simulation.

    Attributes:
        cache: What the live cache did.
        shadows: What the shadow of each way to run did; a sampled shadow counts only what it saw.
        happenings: What the loop did, in order.
        arm_frac: Share of requests under each way to run.
        fits: Every fit.
        arm: The way to run at the end.
        in_force: The last of the fits that came into force; none = nothing did.
        wall_s: How long all of it took, on this machine's clock.
    """

    cache: CacheResult
    shadows: Mapping[Arm, CacheResult]
    happenings: tuple[Happening, ...]
    arm_frac: Mapping[Arm, float]
    fits: tuple[Learned, ...]
    arm: Arm
    in_force: Learned | None
    wall_s: float

    @property
    def lru(self) -> CacheResult:
        """What the shadow under LRU did."""
        return self.shadows[Arm.LRU]

    @property
    def learned(self) -> CacheResult:
        """What the shadow under the learned rule did, in the form that was obeyed most."""
        return self.shadows[max(self.shadows, key=lambda arm: (arm is not Arm.LRU, self.arm_frac[arm], -arm))]

    @property
    def learned_frac(self) -> float:
        """Share of requests that ran under what was learned."""
        return 1.0 - self.arm_frac[Arm.LRU]


@dataclass(slots=True)
class _Run:
    happenings: list[Happening] = field(default_factory=list)
    fits: list[Learned] = field(default_factory=list)
    waiting: Learned | None = None
    in_force: Learned | None = None
    requests: Counter[Arm] = field(default_factory=Counter)


def simulate_online(
    trace: Trace,
    config: CacheConfig,
    costs: CostProfile,
    settings: OnlineSettings | None = None,
    hints: Hints | None = None,
) -> OnlineResult:
    """Run a trace through an engine that starts in LRU and learns on the past only.

    Args:
        trace: The requests.
        config: The engine: capacities, timing, and the store mode.
        costs: The cost model.
        settings: The loop's settings.
        hints: What clients told.
    """
    settings = settings or OnlineSettings()
    load_trainer()  # importing it is no part of a fit
    began = time.perf_counter()
    cache = LearnedCache(
        trace,
        config,
        costs,
        shadow_frac=settings.shadow_frac_for(config.device_blocks),
        seed=settings.seed,
        write=settings.write,
        window_rows=settings.window_rows,
        forget_s=settings.forget_s,
        hints=hints,
    )
    loop, run, turnovers = OnlineLoop(settings), _Run(), measure.Turnovers(cache)
    while cache.position < cache.trace.n_requests:
        before = cache.position
        _put_in_force(cache, loop, run, settings)
        cache.run(before + STEP_REQUESTS)
        run.requests[loop.guard.arm] += cache.position - before
        _act(cache, run, loop.step(_evidence(cache, turnovers, before, settings.arms), cache.position - before))
    n = max(1, cache.trace.n_requests)
    return OnlineResult(
        cache=cache.result(),
        shadows={arm: cache.shadow_result(arm) for arm in (Arm.LRU, *settings.arms)},
        happenings=tuple(run.happenings),
        arm_frac={arm: run.requests[arm] / n for arm in Arm},
        fits=tuple(run.fits),
        arm=loop.guard.arm,
        in_force=_in_force(run, loop.guard.arm),
        wall_s=time.perf_counter() - began,
    )


def _put_in_force(cache: LearnedCache, loop: OnlineLoop, run: _Run, settings: OnlineSettings) -> None:
    """A fitted rule whose delay is over comes into force: in the shadow at once, live where the guard lets it."""
    waiting = run.waiting
    if waiting is None or cache.now_s() < waiting.in_force_at_s:
        return
    run.waiting, run.in_force = None, waiting
    rules = rules_for(waiting, settings.copy_factor_in_force)
    cache.know(rules.packed)
    begun = [arm for arm in settings.arms if arm.form and cache.learn(arm, replace(rules, form=arm.form))]
    loop.begin_comparison(begun)


def _act(cache: LearnedCache, run: _Run, step: Step) -> None:
    def note(kind: str, reason: str) -> None:
        run.happenings.append(Happening(cache.now_s(), cache.position, kind, reason))

    if step.learned is not None:
        run.fits.append(step.learned)
        run.waiting = step.learned
        note("fitted", f"from {step.learned.n_rows:,} runs of blocks")
    if step.note:
        note("waits", step.note)
    for arm in step.rest:
        cache.rest(arm)
    if step.verdict is not None and step.verdict.changed:
        arm = step.verdict.arm
        cache.switch(arm)
        note(arm.name.lower(), step.verdict.reason)


def _in_force(run: _Run, arm: Arm) -> Learned | None:
    """The last rule, in the form of the way to run at the end."""
    if run.in_force is None or arm.form is None:
        return run.in_force
    return replace(run.in_force, form=arm.form)


def _evidence(cache: LearnedCache, turnovers: measure.Turnovers, before: int, arms: Sequence[Arm]) -> Evidence:
    device_s, host_s = turnovers.seconds()
    return Evidence(
        now_s=cache.now_s(),
        n_requests=cache.position,
        device_turnover_s=device_s,
        host_turnover_s=host_s,
        costs_s={arm: measure.cost_s(cache, arm, before) for arm in cache.running if arm is Arm.LRU or arm in arms},
        rows=lambda: measure.rows_of(cache.history),
    )
