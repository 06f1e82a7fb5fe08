"""From trials to one decision: publish a setting, or stay with LRU.

The past is searched, the future judges. The best setting of the past runs once over the held-out part; what it gains
there is the promise. Only if the gain on the past and the gain on the future are both positive beyond their noise does
anything but LRU get published. Nothing else is ever chosen by looking at the held-out part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.core.errors import SearchError
from autotune.core.settings import ValidationSettings
from autotune.search.bounds import bootstrap_gain
from autotune.search.objectives.base import Objective
from autotune.search.objectives.constraints import Constraint
from autotune.search.problem import MIN_REQUESTS, Evaluation, Problem
from autotune.search.result import NO_GAIN, Interval
from autotune.search.setting import Setting
from autotune.sim.config import CacheConfig
from autotune.sim.learned_rules import HazardRules


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

    def evaluate(self, engine: CacheConfig, setting: Setting) -> Evaluation:
        """An engine on the held-out part, after everything before; latencies under the setting's prefetch depth."""
        return self.whole.evaluate_engine(engine, self.held_out, self.whole.queue_under(setting))

    def judge(self, setting: Setting) -> Judged:
        """A setting as the future sees it."""
        engine = self.past.configure(setting)
        return Judged(setting, engine, self.evaluate(engine, setting))


def split_in_time(problem: Problem, train_frac: float) -> Split:
    """The first ``train_frac`` of the time is the past, the rest is held out.

    Raises:
        SearchError: too few requests in the past or in what is held out.
    """
    trace = problem.trace
    fit_until_s = trace.span_s * train_frac
    start = trace.first_request_at(trace.arrival_s[0] + fit_until_s)
    past = problem.until(fit_until_s)
    if trace.n_requests - start < MIN_REQUESTS:
        raise SearchError(
            f"judging needs at least {MIN_REQUESTS} requests in the held-out part",
            got=f"{trace.n_requests - start} from {fit_until_s:.0f} s on",
            remedy="give a longer trace, or a smaller train_frac",
        )
    return Split(problem, past, (start, trace.n_requests), fit_until_s)


@dataclass(frozen=True, slots=True)
class Judged:
    """A setting as the future saw it.

    Attributes:
        setting: The setting.
        engine: The simulated engine under it, its time scales frozen as measured on the past.
        evaluation: Its outcome on the held-out part.
        gain_frac: Share of LRU's cost saved there; LRU's own gain unless it was measured.
        rules: The learned rule that governs device and host instead of the setting; None = the setting does.
    """

    setting: Setting
    engine: CacheConfig
    evaluation: Evaluation
    gain_frac: Interval = NO_GAIN
    rules: HazardRules | None = None

    @property
    def changes_nothing(self) -> bool:
        """Whether the engine stays as it is."""
        return self.rules is None and self.setting.changes_nothing

    @property
    def row_name(self) -> str:
        """The row of the table that shows it, if it changes anything."""
        return "tuned" if self.rules is None else "learned"

    def on(self, split: Split, engine: CacheConfig) -> Evaluation:
        """The same on the held-out part with another engine, such as one of another size."""
        if self.rules is None:
            return split.whole.evaluate_engine(engine, split.held_out)
        return split.whole.evaluate_rules(engine, self.rules, split.held_out)


def gain_of(evaluation: Evaluation, baseline: Evaluation, rules: ValidationSettings, seed: int) -> Interval:
    """Gain over the baseline with its bounds."""
    n = rules.bootstrap_windows
    return bootstrap_gain(
        baseline.window_cost_s(n), evaluation.window_cost_s(n), rules.confidence, rules.bootstrap_samples, seed
    )


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted.

    Attributes:
        objective: What the search minimises; it must improve on the held-out part too.
        constraints: Limits, to be kept on the past and on the held-out part.
        min_gain_frac: Share of LRU's cost below which a gain is not worth a change.
    """

    objective: Objective
    constraints: tuple[Constraint, ...]
    min_gain_frac: float


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
        least = f"{100 * min_gain_frac:g} %"
        return Verdict(False, f"the gain is below {least} of LRU's cost, too little to change anything")
    return Verdict(True, "it beat LRU on the past and on the held-out part by more than the noise")


def choose(
    split: Split, candidate: Judged, lru: Judged, goal: Goal, rules: ValidationSettings, seed: int
) -> tuple[Judged, Verdict]:
    """The candidate if it may be published, else LRU; and why."""
    future, baseline = candidate.evaluation, lru.evaluation
    gain = gain_of(future, baseline, rules, seed)
    past_gain = gain_of(split.past.evaluate(candidate.setting), split.past.baseline, rules, seed)
    verdict = judge_gains(future, baseline, past_gain, gain, goal)
    return (replace(candidate, gain_frac=gain) if verdict.publish else lru), verdict


def judge_gains(future: Evaluation, baseline: Evaluation, past_gain: Interval, gain: Interval, goal: Goal) -> Verdict:
    """Whether a candidate may be published.

    Args:
        future: The candidate on the held-out part.
        baseline: LRU there.
        past_gain: Share of LRU's cost that it saved on the past.
        gain: The same on the held-out part.
        goal: What is wanted.
    """
    verdict = decide(past_gain, gain, goal.min_gain_frac)
    if verdict.publish and any(limit(future, baseline) > 0.0 for limit in goal.constraints):
        verdict = Verdict(False, "what gained on the past broke a limit on the held-out part")
    if verdict.publish and goal.objective.value(future, baseline) >= 0.0:
        verdict = Verdict(False, f"the objective {goal.objective.name} did not improve on the held-out part")
    return verdict
