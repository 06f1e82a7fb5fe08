"""The loop in trace time: what a simulated engine does that learns while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from autotune.core.costs import CostProfile
from autotune.core.reuse.packed import pack
from autotune.core.trace import Trace
from autotune.online import measure
from autotune.online.loop import Evidence, Learned, OnlineLoop, Step
from autotune.online.settings import OnlineSettings
from autotune.sim.config import CacheConfig
from autotune.sim.learned import HazardRules, Hints, LearnedCache
from autotune.sim.result import CacheResult

STEP_REQUESTS = 64


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that the loop did.

    Attributes:
        at_s: When, in trace time.
        request: Requests so far.
        kind: ``learned``, ``in force``, ``obey``, ``lru`` or ``waits``.
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
        plain: What its shadow under LRU did.
        learned: What its shadow under the learned rule did.
        happenings: What the loop did, in order.
        obeyed_frac: Share of requests under the learned rule.
        fits: Every fit.
        wall_s: How long all of it took, on this machine's clock.
    """

    cache: CacheResult
    plain: CacheResult
    learned: CacheResult
    happenings: tuple[Happening, ...]
    obeyed_frac: float
    fits: tuple[Learned, ...]
    wall_s: float


@dataclass(slots=True)
class _Run:
    happenings: list[Happening] = field(default_factory=list)
    fits: list[Learned] = field(default_factory=list)
    waiting: Learned | None = None
    rules: HazardRules | None = None
    obeyed: int = 0


def simulate_online(
    trace: Trace,
    config: CacheConfig,
    costs: CostProfile,
    settings: OnlineSettings | None = None,
    hints: Hints | None = None,
) -> OnlineResult:
    """Run a trace through an engine that starts with LRU and learns on the past only.

    Args:
        trace: The requests.
        config: The engine: capacities, store mode and timing.
        costs: The cost model.
        settings: The loop's settings.
        hints: What clients told.
    """
    settings = settings or OnlineSettings()
    began = time.perf_counter()
    cache = LearnedCache(
        trace, config, costs, window_rows=settings.window_rows, forget_s=settings.forget_s, hints=hints
    )
    loop, run = OnlineLoop(settings), _Run()
    while cache.position < cache.trace.n_requests:
        before = cache.position
        _put_in_force(cache, loop, run, settings)
        cache.run(before + STEP_REQUESTS)
        run.obeyed += (cache.position - before) * loop.guard.obeys
        _act(cache, loop, run, loop.step(_evidence(cache, before), cache.position - before), settings)
    return OnlineResult(
        cache=cache.result(),
        plain=cache.result(cache.plain),
        learned=cache.result(cache.learned),
        happenings=tuple(run.happenings),
        obeyed_frac=run.obeyed / max(1, cache.trace.n_requests),
        fits=tuple(run.fits),
        wall_s=time.perf_counter() - began,
    )


def _put_in_force(cache: LearnedCache, loop: OnlineLoop, run: _Run, settings: OnlineSettings) -> None:
    """A fitted rule whose delay is over comes into force: in the shadow at once, live where the guard lets it."""
    waiting = run.waiting
    if waiting is None or cache.now_s() < waiting.in_force_at_s:
        return
    packed = pack(waiting.model, waiting.device_age_s)
    run.waiting = None
    run.rules = HazardRules(packed, waiting.tick_s, settings.copy_factor)
    cache.know(packed)
    cache.obey(cache.learned, run.rules)
    if loop.guard.obeys:
        cache.obey(cache.live, run.rules)
    loop.begin_comparison(cache.now_s())


def _act(cache: LearnedCache, loop: OnlineLoop, run: _Run, step: Step, settings: OnlineSettings) -> None:
    if step.learned is not None:
        run.fits.append(step.learned)
        run.waiting = step.learned
        text = f"{step.learned.n_rows:,} rows; D {step.learned.device_age_s:.3g} s, ranks every {step.learned.tick_s:.3g} s"
        run.happenings.append(Happening(cache.now_s(), cache.position, "learned", text))
    if step.note:
        run.happenings.append(Happening(cache.now_s(), cache.position, "waits", step.note))
    if step.verdict is not None and step.verdict.changed:
        cache.obey(cache.live, run.rules if step.verdict.obey else None)
        kind = "obey" if step.verdict.obey else "lru"
        run.happenings.append(Happening(cache.now_s(), cache.position, kind, step.verdict.reason))


def _evidence(cache: LearnedCache, before: int) -> Evidence:
    device_s, host_s = measure.turnovers_s(cache)
    return Evidence(
        now_s=cache.now_s(),
        n_requests=cache.position,
        device_age_s=device_s,
        host_age_s=host_s,
        turnover_s=device_s + host_s if host_s > 0.0 else 0.0,
        plain_s=measure.cost_s(cache, cache.plain, before),
        learned_s=measure.cost_s(cache, cache.learned, before),
        rows=lambda: measure.rows_of(cache.history),
    )
