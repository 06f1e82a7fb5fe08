"""From trials to one decision: publish a setting, or stay with LRU.

The past is searched, the future judges. The best setting of the past runs once over the held-out part; what it gains
there is the promise. Only if the gain on the past and the gain on the future are both positive beyond their noise does
anything but LRU get published. Nothing else is ever chosen by looking at the held-out part.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.settings import ValidationSettings
from autotune.search.bounds import bootstrap_gain
from autotune.search.problem import Evaluation, Problem
from autotune.search.result import Interval
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.config import CacheConfig

@dataclass(frozen=True, slots=True)
class Split:
    """The trace in time.

    Attributes:
        whole: The problem on all requests.
        past: The problem on what is tuned on.
        held_out: First and one past the last request that judge.
        fit_until_s: End of the past.
    """

    whole: Problem
    past: Problem
    held_out: tuple[int, int]
    fit_until_s: float


def split_in_time(problem: Problem, train_frac: float) -> Split:
    """The first ``train_frac`` of the time is the past, the rest is held out.

    Raises:
        SearchError: too few requests in the past.
    """
    trace = problem.trace
    fit_until_s = trace.span_s * train_frac
    start = trace.first_request_at(trace.arrival_s[0] + fit_until_s)
    return Split(problem, problem.until(fit_until_s), (start, trace.n_requests), fit_until_s)


@dataclass(frozen=True, slots=True)
class Judged:
    """A setting as the future saw it.

    Attributes:
        setting: The setting.
        engine: The simulated engine under it, its time scales frozen as measured on the past.
        evaluation: Its outcome on the held-out part.
        gain_frac: Share of LRU's cost saved there.
    """

    setting: Setting
    engine: CacheConfig
    evaluation: Evaluation
    gain_frac: Interval


def judge(split: Split, setting: Setting, baseline: Evaluation, rules: ValidationSettings, seed: int) -> Judged:
    """Run a setting over everything, counting only the held-out part."""
    engine = split.past.configure(setting)
    evaluation = split.whole.evaluate_engine(engine, split.held_out, split.whole.queue)
    return Judged(setting, engine, evaluation, gain_of(evaluation, baseline, rules, seed))


def gain_of(evaluation: Evaluation, baseline: Evaluation, rules: ValidationSettings, seed: int) -> Interval:
    """Gain over the baseline with its bounds."""
    n = rules.bootstrap_windows
    return bootstrap_gain(
        baseline.window_cost_s(n), evaluation.window_cost_s(n), rules.confidence, rules.bootstrap_samples, seed
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a setting may be published, and why."""

    publish: bool
    reason: str


def decide(past_gain: Interval, held_out_gain: Interval, min_gain_frac: float) -> Verdict:
    """Publish only what gains on the past and on the future, beyond the noise of both."""
    if past_gain.low <= 0.0:
        return Verdict(False, "no setting beat LRU on the past by more than the noise")
    if held_out_gain.low <= 0.0:
        return Verdict(False, "what gained on the past did not gain on the held-out part by more than the noise")
    if min(past_gain.value, held_out_gain.value) < min_gain_frac:
        return Verdict(False, f"the gain is below {100 * min_gain_frac:g} % of LRU's cost, too little to change anything")
    return Verdict(True, "it beat LRU on the past and on the held-out part by more than the noise")


def lru_engine(split: Split) -> CacheConfig:
    """The simulated engine with LRU on the ranked tier."""
    return split.past.configure(LRU_SETTING)
