"""What the loop would have learned by the end of a trace, fitted once."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.reuse import gain_table, pack
from autotune.core.trace import Trace
from autotune.costs.reuse import NotEnough
from autotune.online import measure
from autotune.online.loop import Evidence, Learned, OnlineLoop
from autotune.online.settings import OnlineSettings
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import HazardRules


def learn_past(trace: Trace, engine: CacheConfig, costs: CostProfile, settings: OnlineSettings) -> Learned | NotEnough:
    """One fit on a whole trace, which an engine under LRU has served.

    Args:
        trace: The past.
        engine: The engine; its policies are not looked at.
        costs: The cost model.
        settings: The loop's settings.
    """
    if not engine.host_blocks:
        return NotEnough("there is no host tier, so there is nothing to decide")
    cache = LearnedCache(
        trace,
        engine,
        costs,
        seed=settings.seed,
        window_rows=settings.window_rows,
        forget_s=settings.forget_s,
        hints=hints_of(trace),
    )
    cache.run(cache.trace.n_requests)
    device_s, host_s = measure.Turnovers(cache).seconds()
    evidence = Evidence(
        now_s=cache.now_s(),
        n_requests=cache.position,
        device_turnover_s=device_s,
        host_turnover_s=host_s,
        costs_s={},
        rows=lambda: measure.rows_of(cache.history),
    )
    step = OnlineLoop(replace(settings, first_fit_requests=0, publish_delay_s=0.0)).step(evidence, cache.position)
    return step.learned or NotEnough(step.note)


def rules_for(learned: Learned, copy_factor: float) -> HazardRules:
    """The rule in the form that a simulated engine obeys."""
    return HazardRules(
        packed=pack(learned.model, learned.device_age_s),
        device_gains=gain_table(learned.model, 0.0),
        tick_s=learned.tick_s,
        copy_factor=copy_factor,
        form=learned.form,
    )
