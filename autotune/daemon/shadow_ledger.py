"""What shadows cost, period by period, and what follows for all requests, with standard errors.

The sample is scaled by seconds, not by its share: what everything would have cost without any cache, known for all
requests, over the same for those in the sample. Two sources of error are told apart. The spread over groups of chains
says what another sample might have shown; it is 0 where everything is sampled. The spread over periods says how steady
a difference is in time.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.daemon.shadow_sampling import N_GROUPS

Groups = npt.NDArray[np.float64]


def _no_seconds() -> Groups:
    return np.zeros(N_GROUPS)


@dataclass(slots=True)
class Tally:
    """One shadow in one period.

    Attributes:
        cost_s: ``(N_GROUPS,)`` seconds by group of chains.
        device_blocks: Blocks found on the device.
        host_blocks: Blocks loaded.
        stored_blocks: Blocks copied to the host.
    """

    cost_s: Groups = field(default_factory=_no_seconds)
    device_blocks: int = 0
    host_blocks: int = 0
    stored_blocks: int = 0


@dataclass(slots=True)
class Period:
    """Some requests in a row.

    Attributes:
        requests: All of them.
        all_s: Seconds of all without any cache.
        sampled_s: ``(N_GROUPS,)`` the same of those in the sample.
        blocks: Blocks that those in the sample asked for.
        shadows: What each shadow made of the sample, by name.
    """

    requests: int = 0
    all_s: float = 0.0
    sampled_s: Groups = field(default_factory=_no_seconds)
    blocks: int = 0
    shadows: dict[str, Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """One policy's cost, as if it had served everything, and against the live one.

    Attributes:
        name: Of the shadow.
        seconds: Recompute, loads and exposed stores of all requests.
        seconds_se: Standard error of that by the choice of chains.
        regret_s: Seconds that the live policy cost more than this one; below 0 the live one was better.
        sampling_se_s: Standard error of the regret by the choice of chains.
        period_se_s: Standard error by its unsteadiness in time; ``None`` before two periods are over.
        device_hit_frac: Share of blocks found on the device.
        host_hit_frac: Share of blocks loaded.
        stored_blocks: Blocks copied to the host, scaled like the seconds.
        requests: Requests that this is about.
        periods: Periods that it is about.
        sampled_frac: Share of chains in the sample.
    """

    name: str
    seconds: float
    seconds_se: float
    regret_s: float
    sampling_se_s: float
    period_se_s: float | None
    device_hit_frac: float
    host_hit_frac: float
    stored_blocks: float
    requests: int
    periods: int
    sampled_frac: float

    @property
    def regret_se_s(self) -> float | None:
        """Both errors together; ``None`` while the second is not known."""
        return None if self.period_se_s is None else math.hypot(self.sampling_se_s, self.period_se_s)


class ShadowLedger:
    """The newest periods.

    Args:
        period_requests: Requests of a period.
        max_periods: Periods that are kept.
    """

    def __init__(self, period_requests: int, max_periods: int) -> None:
        self.period_requests = period_requests
        self.periods: deque[Period] = deque([Period()], maxlen=max_periods)

    @property
    def current(self) -> Period:
        """The period that runs."""
        return self.periods[-1]

    def note(self, no_cache_s: float) -> None:
        """One request, in the sample or not; begins a new period where the last one is full."""
        if self.current.requests >= self.period_requests:
            self.periods.append(Period())
        self.current.requests += 1
        self.current.all_s += no_cache_s

    def report(self, name: str, live: str, sampled_frac: float) -> ShadowReport | None:
        """One shadow against the live one, over the periods that both saw; ``None`` if there is none."""
        seen = [period for period in self.periods if name in period.shadows and live in period.shadows]
        sampled = np.array([period.sampled_s for period in seen]).reshape(-1, N_GROUPS)
        if not sampled.sum() > 0.0:
            return None
        tallies = [period.shadows[name] for period in seen]
        cost = np.array([tally.cost_s for tally in tallies])
        more = np.array([period.shadows[live].cost_s for period in seen]) - cost
        scale = sum(period.all_s for period in seen) / float(sampled.sum())
        blocks = max(1, sum(period.blocks for period in seen))
        return ShadowReport(
            name=name,
            seconds=scale * float(cost.sum()),
            seconds_se=scale * _error_of_sample(cost, sampled, sampled_frac),
            regret_s=scale * float(more.sum()),
            sampling_se_s=scale * _error_of_sample(more, sampled, sampled_frac),
            period_se_s=_times(scale, _error_of_sum(more.sum(axis=1))),
            device_hit_frac=sum(tally.device_blocks for tally in tallies) / blocks,
            host_hit_frac=sum(tally.host_blocks for tally in tallies) / blocks,
            stored_blocks=scale * sum(tally.stored_blocks for tally in tallies),
            requests=sum(period.requests for period in seen),
            periods=len(seen),
            sampled_frac=sampled_frac,
        )


def _error_of_sample(values: Groups, sampled: Groups, frac: float) -> float:
    """Standard error of a sum over the sample that is scaled by seconds: the spread of groups around the ratio.

    Source: Wolter, "Introduction to Variance Estimation", chapter 2 (random groups), with the residuals of a ratio
    estimator and the correction for a finite population.
    """
    by_group, seconds = values.sum(axis=0), sampled.sum(axis=0)
    residuals = (by_group - by_group.sum() / seconds.sum() * seconds)[seconds > 0.0]
    n = len(residuals)
    if n < 2:
        return 0.0 if frac >= 1.0 else float(abs(by_group.sum()))
    return float(np.sqrt(n / (n - 1.0) * (residuals**2).sum() * (1.0 - frac)))


def _error_of_sum(values: Groups) -> float | None:
    n = len(values)
    return float(np.sqrt(n) * values.std(ddof=1)) if n >= 2 else None


def _times(scale: float, error: float | None) -> float | None:
    return None if error is None else scale * error
