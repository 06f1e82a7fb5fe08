"""The learned rule as a candidate: fitted on the past, its store mode chosen on the past, judged like every other.

The past is cut in two. What is fitted on its first part chooses the store mode on its second, which the fit has not
seen, and is weighed there against the tuned rank rule. Then the rule is fitted again on all of the past.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from autotune.core.errors import SearchError
from autotune.core.settings import Settings
from autotune.core.types import EngineSemantics, RankForm, StoreMode
from autotune.costs.reuse import NotEnough
from autotune.online.account import Gain
from autotune.online.from_settings import online_settings
from autotune.online.loop import Learned
from autotune.online.past import learn_past, rules_for
from autotune.search.choice import Goal, Judged, Split, Verdict, gain_of, judge_gains, split_in_time
from autotune.search.problem import Evaluation
from autotune.search.result import LearnedReport, ModeRow
from autotune.search.setting import LRU_SETTING
from autotune.search.write_budget import copy_factor_of
from autotune.sim.config import CacheConfig
from autotune.sim.learned_rules import HazardRules


@dataclass(frozen=True, slots=True)
class ModeOnPast:
    """A store mode on the later part of the past, under what was fitted on the earlier part.

    Attributes:
        mode: The mode.
        form: How the rule ranks blocks.
        evaluation: What it came to there.
        value: The objective, to be minimised; below 0 is better than LRU.
    """

    mode: StoreMode
    form: RankForm
    evaluation: Evaluation
    value: float


@dataclass(frozen=True, slots=True)
class LearnedCandidate:
    """A learned rule that may be published.

    Attributes:
        learned: What was fitted on the whole past.
        judged: It on the held-out part.
        joint: One LRU over both tiers with its store mode there.
        modes: Every store mode with every form of the rule on the later part of the past, the chosen pair first.
        past_lru: LRU there.
        later: First and one past the last request of that part.
    """

    learned: Learned
    judged: Judged
    joint: Evaluation
    modes: tuple[ModeOnPast, ...]
    past_lru: Evaluation
    later: tuple[int, int]


def learned_candidate(split: Split, goal: Goal, settings: Settings) -> LearnedCandidate | NotEnough:
    """Fit, choose store mode and form of the ranks, fit again, judge; or why there is nothing to judge."""
    unfit = _unfit(split.whole.engine)
    if unfit:
        return NotEnough(unfit)
    try:
        halves = split_in_time(split.past, settings.search.train_frac)
    except SearchError as problem:
        return NotEnough(str(problem))
    past, engine, copy_factor = split.past, split.whole.engine, copy_factor_of(settings.online)
    loop = online_settings(settings.online, settings.search.seed, settings.search.fit)
    first = learn_past(halves.past.trace, engine, past.costs, loop)
    learned = learn_past(past.trace, engine, past.costs, loop)
    if isinstance(first, NotEnough):
        return first
    if isinstance(learned, NotEnough):
        return learned
    past_lru = halves.judge(LRU_SETTING).evaluation
    rules = rules_for(first, copy_factor)
    modes = sorted(_modes(halves, rules, past_lru, goal), key=lambda row: row.value)
    chosen = replace(engine, store_mode=modes[0].mode)
    learned = replace(learned, form=modes[0].form)
    final = rules_for(learned, copy_factor)
    return LearnedCandidate(
        learned=learned,
        judged=Judged(LRU_SETTING, chosen, split.whole.evaluate_rules(chosen, final, split.held_out), rules=final),
        joint=split.whole.evaluate_joint_lru(chosen, split.held_out),
        modes=tuple(modes),
        past_lru=past_lru,
        later=halves.held_out,
    )


def better(
    split: Split,
    rank: tuple[Judged, Verdict],
    best: Judged,
    found: LearnedCandidate | NotEnough | None,
    lru: Judged,
    goal: Goal,
    settings: Settings,
) -> tuple[Judged, Verdict, LearnedReport]:
    """Of a setting and a learned rule the one that did better on the past, if it may be published; else the other.

    Args:
        split: The problem.
        rank: What became of the best setting, and why.
        best: The best setting.
        found: The learned rule, or why there is none; ``None`` = it was not asked for.
        lru: LRU, which stays where neither may be published.
        goal: What is wanted.
        settings: Seed, and how bounds are drawn.
    """
    if not isinstance(found, LearnedCandidate):
        return *rank, report_of(found, lru.evaluation, None)
    learned = choose_learned(split, found, lru, goal, settings)
    order = [learned, rank] if better_on_past(split, found, best, goal) else [rank, learned]
    judged, verdict = next(((judged, verdict) for judged, verdict in order if verdict.publish), rank)
    return judged, verdict, report_of(found, lru.evaluation, learned[1])


def choose_learned(
    split: Split, candidate: LearnedCandidate, lru: Judged, goal: Goal, settings: Settings
) -> tuple[Judged, Verdict]:
    """The candidate if it may be published, else LRU; and why. By the rule that every setting is held to."""
    rules, seed = settings.validation, settings.search.seed
    gain = gain_of(candidate.judged.evaluation, lru.evaluation, rules, seed)
    past_gain = gain_of(candidate.modes[0].evaluation, candidate.past_lru, rules, seed)
    verdict = judge_gains(candidate.judged.evaluation, lru.evaluation, past_gain, gain, goal)
    return (replace(candidate.judged, gain_frac=gain) if verdict.publish else lru), verdict


def better_on_past(split: Split, candidate: LearnedCandidate, rank: Judged, goal: Goal) -> bool:
    """Whether the learned rule did better than a setting on the later part of the past.

    The setting was searched on that part too and the rule was not fitted on it, so the setting has the advantage.
    """
    there = split.past.evaluate(rank.setting, candidate.later)
    return candidate.modes[0].value < goal.objective.value(there, candidate.past_lru)


def report_of(found: LearnedCandidate | NotEnough | None, lru: Evaluation, verdict: Verdict | None) -> LearnedReport:
    """What is told of the learned rule, whether it is published or not.

    Args:
        found: The candidate, or why there is none; ``None`` = it was not asked for.
        lru: LRU on the held-out part.
        verdict: Whether the candidate may be published.
    """
    if not isinstance(found, LearnedCandidate):
        return LearnedReport(reason="it was left out on request" if found is None else found.reason)
    costs = (lru, found.joint, found.judged.evaluation)
    gain = Gain.of(*(evaluation.totals.cost_s for evaluation in costs))
    return LearnedReport(
        reason=verdict.reason if verdict else "",
        store_mode=found.judged.engine.store_mode,
        form=found.learned.form,
        mode_gain_frac=gain.mode_frac,
        learning_gain_frac=gain.learning_frac,
        modes=tuple(_mode_row(row, found.past_lru) for row in found.modes),
        rows=found.learned.n_rows,
        fit_seconds=found.learned.fit_seconds,
        horizons_s=(found.learned.model.near.horizon_s, found.learned.model.far.horizon_s),
    )


def _mode_row(row: ModeOnPast, past_lru: Evaluation) -> ModeRow:
    base_s = past_lru.totals.cost_s
    gain_frac = 1.0 - row.evaluation.totals.cost_s / base_s if base_s > 0.0 else 0.0
    return ModeRow(row.mode, gain_frac, row.form)


def _modes(halves: Split, rules: HazardRules, past_lru: Evaluation, goal: Goal) -> list[ModeOnPast]:
    found = []
    for form, mode in product(RankForm, StoreMode):
        engine = replace(halves.whole.engine, store_mode=mode)
        evaluation = halves.whole.evaluate_rules(engine, replace(rules, form=form), halves.held_out)
        found.append(ModeOnPast(mode, form, evaluation, goal.objective.value(evaluation, past_lru)))
    return found


def _unfit(engine: CacheConfig) -> str:
    """Why a learned rule cannot govern this engine; empty if it can."""
    if engine.semantics is not EngineSemantics.CANONICAL:
        return f"it is not simulated by the rules of {engine.semantics}"
    if engine.device_policy.name != "lru":
        return f"the device is given to {engine.device_policy.name}, and a learned rule governs it too"
    if engine.chunk_blocks > 1:
        return "it ranks single blocks, and the engine stores chunks"
    return ""
