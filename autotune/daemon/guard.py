"""The guard: whether a policy on trial does harm, and whether it keeps its promise.

The trial is compared with the window before it, of which both are sums over all engines of the group:

- *Time to the first token, p95*: distribution-free bounds from the histogram's counts (binomial ranks). It is worse
  where the lower bound of the trial lies above the upper bound before it by more than the tolerance.
- *Preemptions and failed requests*, per finished request: Poisson bounds (Byar). A count of zero before the trial has
  an upper bound above zero, so a single event is no regression.
- *Throughput* in generated tokens per second and *cost* in seconds per prompt token (prefill of what was computed,
  loads, exposed stores): ratio estimator over blocks of neighbouring intervals with Student's bounds. Throughput
  depends on what is asked for, so it only counts where requests wait that did not wait before.

Every check of every interval of a trial shares one probability of a false alarm (union bound): ``1 - confidence`` is
divided by the number of checks and of looks. Thin evidence widens the bounds, so that nothing trips and nothing is
kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from autotune.core.sidecar_settings import GuardSettings
from autotune.daemon.bounds import Bounds, poisson_bounds, quantile_bounds, rate_bounds, two_sided_z
from autotune.daemon.windows import Interval, Window

_P95 = 0.95
_MIN_FINISHED = 20.0  # requests without which a share of them says nothing
_MS_PER_S = 1000.0


class Concern(StrEnum):
    """What can be wrong."""

    TTFT = "ttft_p95"
    THROUGHPUT = "throughput"
    PREEMPTIONS = "preemptions"
    ERRORS = "errors"
    NET_SECONDS = "net_seconds"
    DEAD = "dead_engine"
    STALE = "stale_telemetry"
    INTEGRITY = "integrity"
    NOT_IN_FORCE = "not_in_force"


@dataclass(frozen=True, slots=True)
class Trip:
    """One reason to take a policy back."""

    concern: Concern
    text: str


@dataclass(frozen=True, slots=True)
class SecondsPerToken:
    """What turns counts of tokens into seconds.

    Attributes:
        prefill_s: Seconds to compute one prompt token, at the usual depth.
        store_exposed_frac: Share of store seconds that something waits for.
    """

    prefill_s: float
    store_exposed_frac: float = 0.0

    def cost_s(self, interval: Interval) -> float | None:
        """Seconds of prefill, loads and exposed stores; ``None`` = not known."""
        if interval.computed_tokens is None:
            return None
        stored = self.store_exposed_frac * (interval.store_s or 0.0)
        return self.prefill_s * interval.computed_tokens + (interval.load_s or 0.0) + stored


def regressions(
    before: Window, trial: Window, costs: SecondsPerToken | None, settings: GuardSettings, looks: int
) -> tuple[Trip, ...]:
    """What got worse, beyond tolerance and chance.

    Args:
        before: The window before the trial.
        trial: What there is of the trial.
        costs: Turns tokens into seconds; ``None`` = not known yet, which leaves the net seconds out.
        settings: Tolerances and confidence.
        looks: How often this is asked during one trial.
    """
    confidence = 1.0 - (1.0 - settings.confidence) / (5.0 * max(1, looks))
    z = two_sided_z(confidence)
    checks = (
        _ttft(before, trial, settings.max_ttft_loss_frac, z),
        _events(Concern.PREEMPTIONS, "preemptions", before, trial, settings.max_preemption_rise_frac, 0.0, z),
        _events(Concern.ERRORS, "failed", before, trial, 0.0, settings.max_error_frac, z),
        _throughput(before, trial, settings.max_throughput_loss_frac, confidence),
        _net_seconds(before, trial, costs, confidence),
    )
    return tuple(trip for trip in checks if trip is not None)


def gain_bounds(before: Window, trial: Window, costs: SecondsPerToken, confidence: float) -> Bounds | None:
    """Share of the cost per prompt token that the trial saves; ``None`` = too little evidence."""
    # Both bounds must hold together, so each gets half of what may go wrong.
    each = 1.0 - (1.0 - confidence) / 2.0
    old, new = _cost_rate(before, costs, each), _cost_rate(trial, costs, each)
    if old is None or new is None or old.low <= 0.0:
        return None
    return Bounds(1.0 - new.value / old.value, 1.0 - new.high / old.low, 1.0 - new.low / old.high)


def _ttft(before: Window, trial: Window, tolerance: float, z: float) -> Trip | None:
    old, new = before.ttft, trial.ttft
    if old is None or new is None:
        return None
    was, now = quantile_bounds(old, _P95, z), quantile_bounds(new, _P95, z)
    if was is None or now is None or now.low <= was.high * (1.0 + tolerance):
        return None
    text = (
        f"p95 of the time to the first token rose from {was.value * _MS_PER_S:.0f} ms (at most "
        f"{was.high * _MS_PER_S:.0f}) to {now.value * _MS_PER_S:.0f} ms (at least {now.low * _MS_PER_S:.0f})"
    )
    return Trip(Concern.TTFT, text)


def _events(
    concern: Concern, name: str, before: Window, trial: Window, rise_frac: float, extra_frac: float, z: float
) -> Trip | None:
    """Events per finished request, whose rate may rise by a share of itself and by a share of the requests."""
    totals = [window.total(column) for window in (before, trial) for column in (name, "finished")]
    if any(total is None for total in totals):
        return None
    old, old_n, new, new_n = (total or 0.0 for total in totals)
    if min(old_n, new_n) < _MIN_FINISHED:
        return None
    highest = poisson_bounds(old, z).high / old_n * (1.0 + rise_frac) + extra_frac
    lowest = poisson_bounds(new, z).low / new_n
    if lowest <= highest:
        return None
    what = "preemptions" if concern is Concern.PREEMPTIONS else "failed requests"
    text = f"{what} rose from {old:.0f} in {old_n:.0f} requests to {new:.0f} in {new_n:.0f}"
    return Trip(concern, text)


def _throughput(before: Window, trial: Window, tolerance: float, confidence: float) -> Trip | None:
    if not _demand_waits(before, trial):
        return None
    was, now = (_rate(window, confidence) for window in (before, trial))
    if was is None or now is None or now.high >= was.low * (1.0 - tolerance):
        return None
    text = f"throughput fell from {was.value:.0f} to {now.value:.0f} tokens/s while requests wait"
    return Trip(Concern.THROUGHPUT, text)


def _demand_waits(before: Window, trial: Window) -> bool:
    """Whether the queue grew, so that a lower throughput is not merely a lower load."""
    old, new = before.total("waiting"), trial.total("waiting")
    if old is None or new is None:
        return False
    mean_old, mean_new = old / len(before.intervals), new / len(trial.intervals)
    return mean_new >= 1.0 and mean_new > mean_old


def _rate(window: Window, confidence: float) -> Bounds | None:
    return rate_bounds(*window.pairs(lambda each: each.generation_tokens, lambda each: each.seconds), confidence)


def _net_seconds(before: Window, trial: Window, costs: SecondsPerToken | None, confidence: float) -> Trip | None:
    if costs is None:
        return None
    gain = gain_bounds(before, trial, costs, confidence)
    if gain is None or gain.high >= 0.0:
        return None
    text = f"seconds per prompt token rose by {-100 * gain.value:.1f} % (at least {-100 * gain.high:.1f})"
    return Trip(Concern.NET_SECONDS, text)


def _cost_rate(window: Window, costs: SecondsPerToken, confidence: float) -> Bounds | None:
    return rate_bounds(*window.pairs(costs.cost_s, _asked_tokens), confidence)


def _asked_tokens(interval: Interval) -> float | None:
    return interval.prompt_tokens


def judged(gain: Bounds | None, promised: tuple[float, float] | None) -> Iterator[str]:
    """Why a trial without a regression is nevertheless not kept; nothing = keep it."""
    if gain is None:
        yield "too little was measured to say whether it saves anything"
    elif gain.low <= 0.0 and not (gain.value > 0.0 and promised is not None and gain.overlaps(*promised)):
        span = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
        yield f"it saves {100 * gain.value:+.1f} % ({span}), which may be chance"
