"""The loop itself: evidence in, something to publish or nothing out. It knows neither clocks nor engines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from autotune.core.reuse import ReuseModel
from autotune.core.types import Arm, RankForm
from autotune.costs.reuse import NotEnough, Rows, fit_reuse
from autotune.online.guard import Guard, Verdict
from autotune.online.settings import OnlineSettings

MIN_TICK_S = 0.001


@dataclass(frozen=True, slots=True)
class Evidence:
    """What happened up to now; nothing of what comes later.

    Attributes:
        now_s: Seconds since the start.
        n_requests: Requests so far.
        device_turnover_s: Seconds in which LRU replaces the content of the device once; 0 = it is not full yet.
        host_turnover_s: The same of the host.
        costs_s: Critical-path seconds that the shadow of each way to run spent since the last step.
        rows: Gives the rows to learn from; called only for a fit.
    """

    now_s: float
    n_requests: int
    device_turnover_s: float
    host_turnover_s: float
    costs_s: Mapping[Arm, float]
    rows: Callable[[], Rows]


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted rule, to be published.

    Attributes:
        model: The reuse model.
        device_age_s: D: age up to which a reuse is a hit on the device anyway.
        tick_s: How often residents are ranked anew.
        fitted_at_s: When it was fitted.
        in_force_at_s: From when on it may be obeyed.
        n_rows: Rows that it was fitted on.
        fit_seconds: How long the fit took, on this machine's clock.
        form: Whether blocks are ranked by it anew in every tick, or once, when they become idle.
    """

    model: ReuseModel
    device_age_s: float
    tick_s: float
    fitted_at_s: float
    in_force_at_s: float
    n_rows: int
    fit_seconds: float
    form: RankForm = RankForm.HAZARD


@dataclass(frozen=True, slots=True)
class Step:
    """Outcome of one step.

    Attributes:
        learned: A newly fitted rule; ``None`` = none.
        verdict: What the guard says after a whole period; ``None`` within one.
        note: Why nothing was fitted although it was due, else empty.
        rest: Ways whose shadows may rest until something else is in force.
    """

    learned: Learned | None = None
    verdict: Verdict | None = None
    note: str = ""
    rest: tuple[Arm, ...] = ()


class OnlineLoop:
    """Decides when to fit, and whether what was fitted is obeyed.

    Args:
        settings: Its settings.
    """

    def __init__(self, settings: OnlineSettings) -> None:
        self._settings = settings
        self.guard = Guard(settings.guard, settings.arms)
        self._next_fit = settings.first_fit_requests
        self._period_began_s = 0.0
        self._period_requests = 0
        self._costs_s: Counter[Arm] = Counter()
        self._ready = False

    def step(self, evidence: Evidence, n_new: int) -> Step:
        """Take note of ``n_new`` requests more."""
        verdict = self._compare(evidence, n_new)
        learned, note = (None, "")
        if evidence.n_requests >= self._next_fit:
            learned, note = self._fit(evidence)
        rest = self.guard.hopeless() if verdict else ()
        self.guard.forget(rest)
        return Step(learned, verdict, note, rest)

    def begin_comparison(self, arms: Collection[Arm]) -> None:
        """The shadows of these ways begin anew; what they did before does not count."""
        self._ready = True
        if arms:
            self.guard.forget(arms)
            self._costs_s.clear()
            self._period_requests = 0

    def _compare(self, evidence: Evidence, n_new: int) -> Verdict | None:
        settings = self._settings.guard
        self._costs_s.update(evidence.costs_s)
        self._period_requests += n_new
        turnover_s = evidence.device_turnover_s + evidence.host_turnover_s
        full = evidence.host_turnover_s > 0.0
        long_enough = evidence.now_s - self._period_began_s >= turnover_s / settings.periods_per_turnover
        if not (full and long_enough) or self._period_requests < settings.min_period_requests:
            return None
        verdict = self.guard.period(self._costs_s, self._ready)
        self._period_began_s, self._period_requests = evidence.now_s, 0
        self._costs_s.clear()
        return verdict

    def _fit(self, evidence: Evidence) -> tuple[Learned | None, str]:
        settings = self._settings
        seen = evidence.n_requests
        self._next_fit = min(int(seen * settings.refit_growth) + 1, seen + settings.refit_max_requests)
        if evidence.host_turnover_s <= 0.0:
            return None, "the host is not full yet, so nothing has to be decided"
        began = time.perf_counter()
        rows = evidence.rows()
        model = fit_reuse(rows, evidence.now_s, settings.fit, settings.seed + seen)
        if isinstance(model, NotEnough):
            return None, model.reason
        tick_s = min(evidence.host_turnover_s, model.near.horizon_s) / settings.ticks_per_horizon
        learned = Learned(
            model=model,
            device_age_s=settings.device_age_frac * evidence.device_turnover_s,
            tick_s=max(tick_s, MIN_TICK_S),
            fitted_at_s=evidence.now_s,
            in_force_at_s=evidence.now_s + settings.publish_delay_s,
            n_rows=len(rows),
            fit_seconds=time.perf_counter() - began,
            form=settings.form or RankForm.HAZARD,
        )
        return learned, ""
