"""Which share of the seconds that copies take delays requests, and what a preemption costs."""

from __future__ import annotations

import numpy as np

from autotune.core.estimates import Estimate, t_quantile
from autotune.costs.robust import Prior, fit_robustly
from autotune.costs.window import SampleWindow

_SPREAD_FRAC = 0.25  # of an exposed share that was assumed, not measured
_COMPUTE_SPREAD_FRAC = 0.5
_ASSUMED_EVENTS = 2.0


class ExposedWait:
    """Learns the exposed share from intervals of time: ``observed = level * computed + share * copied``.

    An interval is, say, what happened between two looks at an engine's counters: seconds that requests spent in
    prefill, seconds that their tokens should have taken, seconds of copies meanwhile. The level takes up what the
    second one is wrong by as a whole.

    Args:
        name: Of the estimate.
        assumed_frac: Share that is assumed before anything was measured.
        source: Where that comes from.
        max_samples: Most intervals kept.
        window_s: Intervals older than this no longer count.
    """

    def __init__(
        self, name: str, assumed_frac: float, source: str, max_samples: int = 1_024, window_s: float = 3_600.0
    ) -> None:
        self._name, self._assumed, self._source = name, assumed_frac, source
        self._window = SampleWindow(3, max_samples, window_s)

    def observe(self, at_s: float, observed_s: float, computed_s: float, copied_s: float) -> None:
        """One interval; one without prefill says nothing."""
        if observed_s > 0.0 and computed_s > 0.0 and copied_s >= 0.0:
            self._window.add(at_s, computed_s, copied_s, observed_s)

    def estimate(self, now_s: float) -> Estimate:
        """The exposed share, between 0 and 1."""
        _, computed_s, copied_s, observed_s = self._window.columns(now_s)
        prior = Prior(np.array([1.0, self._assumed]), np.array([_COMPUTE_SPREAD_FRAC, _SPREAD_FRAC]))
        fit = fit_robustly(np.stack([computed_s, copied_s], axis=1), observed_s, prior)
        value, low, high = (min(part, 1.0) for part in fit.interval(1))
        n = len(observed_s)
        source = self._source
        if n:
            source = f"{n} intervals measured; weight of the assumption: {fit.prior_share[1]:.0%} ({self._source})"
        return Estimate(self._name, value, low, high, "1", n, self._window.age_s(now_s), source)


class PreemptionCost:
    """Learns the seconds that a preemption throws away: what has to be computed again.

    Args:
        max_samples: Most observations kept.
        window_s: Observations older than this no longer count.
    """

    def __init__(self, max_samples: int = 1_024, window_s: float = 3_600.0) -> None:
        self._window = SampleWindow(2, max_samples, window_s)

    def observe(self, at_s: float, seconds: float, events: float = 1.0) -> None:
        """Seconds lost by one preemption, or by several together."""
        if events > 0.0 and seconds >= 0.0:
            self._window.add(at_s, events, seconds)

    def estimate(self, now_s: float, assumed_s: float) -> Estimate:
        """Mean seconds per preemption.

        Args:
            now_s: The present on the clock of the observations.
            assumed_s: What one costs if none was seen, such as the prefill of a typical prompt; counts as two events.
        """
        _, events, seconds = self._window.columns(now_s)
        n, total = len(events), float(events.sum()) + _ASSUMED_EVENTS
        value = (float(seconds.sum()) + _ASSUMED_EVENTS * assumed_s) / total
        off = float(((seconds - value * events) ** 2).sum()) + _ASSUMED_EVENTS * assumed_s**2
        half = t_quantile(n + 1.0) * float(np.sqrt(off)) / total
        source = f"{n} observations of preemptions, and two assumed ones of {assumed_s:.3g} s"
        age_s = self._window.age_s(now_s)
        return Estimate("preemption_s", value, max(0.0, value - half), value + half, "s", n, age_s, source)
