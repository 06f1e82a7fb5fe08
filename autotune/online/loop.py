"""The loop itself: evidence in, something to publish or nothing out. It knows neither clocks nor engines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from autotune.core.reuse import ReuseModel
from autotune.costs.reuse import NotEnough, ReuseSettings, Rows, fit_reuse
from autotune.online.guard import Guard, Verdict
from autotune.online.settings import OnlineSettings


@dataclass(frozen=True, slots=True)
class Evidence:
    """What happened up to now; nothing of what comes later.

    Attributes:
        now_s: Seconds since the start.
        n_requests: Requests so far.
        device_age_s: Median age at which the device evicts under the learned rule (LRU before there is one).
        host_age_s: The same of the host.
        turnover_s: Seconds in which LRU replaces the content of all tiers once; 0 = not yet known.
        plain_s: Critical-path seconds that the shadow under LRU spent since the last step.
        learned_s: Those of the shadow under the learned rule.
        rows: Gives the rows to learn from; called only for a fit.
    """

    now_s: float
    n_requests: int
    device_age_s: float
    host_age_s: float
    turnover_s: float
    plain_s: float
    learned_s: float
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
    """

    model: ReuseModel
    device_age_s: float
    tick_s: float
    fitted_at_s: float
    in_force_at_s: float
    n_rows: int
    fit_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """Outcome of one step.

    Attributes:
        learned: A newly fitted rule; ``None`` = none.
        verdict: What the guard says after a whole period; ``None`` within one.
        note: Why nothing was fitted although it was due, else empty.
    """

    learned: Learned | None = None
    verdict: Verdict | None = None
    note: str = ""


class OnlineLoop:
    """Decides when to fit, and whether what was fitted is obeyed.

    Args:
        settings: Its settings.
    """

    def __init__(self, settings: OnlineSettings) -> None:
        self._settings = settings
        self.guard = Guard(settings.guard)
        self._next_fit = settings.first_fit_requests
        self._period_began_s = 0.0
        self._period_requests = 0
        self._plain_s = 0.0
        self._learned_s = 0.0
        self._has_learned = False

    def step(self, evidence: Evidence, n_new: int) -> Step:
        """Take note of ``n_new`` requests more."""
        verdict = self._compare(evidence, n_new) if self._has_learned else None
        learned, note = (None, "")
        if evidence.n_requests >= self._next_fit:
            learned, note = self._fit(evidence)
        return Step(learned, verdict, note)

    def begin_comparison(self, now_s: float) -> None:
        """The shadow obeys its first learned rule from now on."""
        if not self._has_learned:
            self._has_learned = True
            self._period_began_s = now_s

    def _compare(self, evidence: Evidence, n_new: int) -> Verdict | None:
        settings = self._settings.guard
        self._plain_s += evidence.plain_s
        self._learned_s += evidence.learned_s
        self._period_requests += n_new
        length_s = evidence.turnover_s / settings.periods_per_turnover
        whole = evidence.turnover_s > 0.0 and evidence.now_s - self._period_began_s >= length_s
        if not whole or self._period_requests < settings.min_period_requests:
            return None
        verdict = self.guard.period(self._plain_s, self._learned_s)
        self._period_began_s, self._period_requests = evidence.now_s, 0
        self._plain_s = self._learned_s = 0.0
        return verdict

    def _fit(self, evidence: Evidence) -> tuple[Learned | None, str]:
        settings = self._settings
        seen = evidence.n_requests
        self._next_fit = min(int(seen * settings.refit_growth) + 1, seen + settings.refit_max_requests)
        if evidence.host_age_s <= 0.0:
            return None, "no tier is full yet, so nothing has to be decided"
        began = time.perf_counter()
        rows = evidence.rows()
        model = fit_reuse(rows, evidence.now_s, ReuseSettings(max_rows=settings.fit_rows), settings.seed + seen)
        if isinstance(model, NotEnough):
            return None, model.reason
        learned = Learned(
            model=model,
            device_age_s=settings.device_age_frac * evidence.device_age_s,
            tick_s=max(evidence.host_age_s / settings.ticks_per_age, 0.001),
            fitted_at_s=evidence.now_s,
            in_force_at_s=evidence.now_s + settings.publish_delay_s,
            n_rows=len(rows.time_s),
            fit_seconds=time.perf_counter() - began,
        )
        return learned, ""
