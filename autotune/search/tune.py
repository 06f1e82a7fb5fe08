"""The tuning run, from a problem to everything that is known about its best setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autotune.core import registry
from autotune.core.break_even import break_even_tokens
from autotune.core.clock import Clock
from autotune.core.policy import PolicyDocument
from autotune.core.settings import Settings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.costs.reuse import NotEnough
from autotune.search import comparison, evidence, learned_document, publishing
from autotune.search import learned as learning
from autotune.search.choice import Goal, Judged, Split, Verdict, choose, split_in_time
from autotune.search.learned import LearnedCandidate
from autotune.search.objectives.base import Objective
from autotune.search.objectives.constraints import Constraint
from autotune.search.problem import Evaluation, Problem
from autotune.search.result import PolicyRow, TierSizes, TraceSummary, TrialRow, TuneResult
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import SearchSpace
from autotune.search.study import StudyPlan, best_of, parameter_importance, run_study
from autotune.search.wording import assumptions_of, verdict_of
from autotune.traces.stats import infinite_hits, reuse_gaps_s

MIN_GAIN_FRAC = 0.002
_GAP_BINS = 48
Progress = Callable[[str, int, int, float], None]


@dataclass(frozen=True, slots=True)
class TuneTask:
    """All that a tuning run needs to know.

    Attributes:
        problem: Trace, engine, costs, ranked tier, queue.
        space: Where to search.
        objective: What to minimise.
        constraints: Limits to keep.
        settings: Search and validation settings.
        model: The model, for the fingerprint.
        trace_name: ``FORMAT:FILE`` as given.
        ttft_note: Why TTFT is reported or not.
        storage: SQLAlchemy URL of a study to resume; None keeps it in memory.
        start: Settings to try right after LRU's own.
    """

    problem: Problem
    space: SearchSpace
    objective: Objective
    constraints: tuple[Constraint, ...]
    settings: Settings
    model: ModelShape
    trace_name: str
    ttft_note: str
    storage: str | None = None
    start: tuple[Setting, ...] = ()


def load_objective(name: str) -> Objective:
    """The registered objective of that name.

    Raises:
        UnknownNameError: there is none.
    """
    objective: Objective = registry.load(registry.OBJECTIVES, name)()
    return objective


def tune(task: TuneTask, clock: Clock, on_progress: Progress | None = None) -> TuneResult:
    """Search the past, judge on the future, and compare with everything else there.

    Args:
        task: What to tune.
        clock: Measures the run.
        on_progress: Called with the step's name, how far it is, of how many, and the best value so far.

    Raises:
        SearchError: the trace is too short, or the space, objective or study do not fit.
    """
    started_s = clock.monotonic_s()
    settings = task.settings
    split = split_in_time(task.problem, settings.search.train_frac)
    rows = _search(task, split, settings.search.sampler, on_progress)
    rivals = _search(task, split, "random", on_progress) if _wants_rival(settings) else []
    lru, best = split.judge(LRU_SETTING), split.judge(best_of(rows).setting)
    goal = Goal(task.objective, task.constraints, MIN_GAIN_FRAC)
    rank = choose(split, best, lru, goal, settings.validation, settings.search.seed)
    found = learning.learned_candidate(split, goal, settings) if settings.search.learned else None
    judged, verdict, report = learning.better(split, rank, best, found, lru, goal, settings)
    contenders = {"tuned": rank[0].evaluation}
    if rank[0].setting != best.setting:
        contenders["best found, not published"] = best.evaluation
    if rivals:
        contenders["random search"] = split.judge(best_of(rivals).setting).evaluation
    if isinstance(found, LearnedCandidate):
        contenders["learned"] = found.judged.evaluation
    table = comparison.compare(split, lru.evaluation, contenders, settings.search.workers)
    described = _describe(task, split, judged, verdict, lru.evaluation, table, [*rows, *rivals], found)
    return replace(described, learned=report, wall_s=clock.monotonic_s() - started_s)


def _wants_rival(settings: Settings) -> bool:
    return settings.search.random_search and settings.search.sampler != "random"


def _search(task: TuneTask, split: Split, sampler: str, on_progress: Progress | None) -> list[TrialRow]:
    search = task.settings.search
    plan = StudyPlan(
        sampler=sampler,
        trials=search.trials,
        seed=search.seed,
        workers=search.workers,
        storage=task.storage,
        study_name=f"kv-autotune-{sampler}-{search.seed}",
        first=task.start,
    )

    def report(row: TrialRow, best: TrialRow) -> None:
        if on_progress:
            on_progress(f"{sampler} search", row.number + 1, search.trials, best.value)

    return run_study(split.past, task.space, task.objective, plan, task.constraints, report)


def _describe(
    task: TuneTask,
    split: Split,
    judged: Judged,
    verdict: Verdict,
    lru: Evaluation,
    table: tuple[PolicyRow, ...],
    trials: list[TrialRow],
    found: LearnedCandidate | NotEnough | None,
) -> TuneResult:
    settings = task.settings
    stays = judged.changes_nothing
    gap = None if stays else next(row.gap_closed_frac for row in table if row.name == judged.row_name)
    marginal = evidence.marginal_values(split, judged)
    horizon_s = split.past.turnover_s()
    prices = evidence.prices(marginal, evidence.reuse_steps(split.past.trace, horizon_s), horizon_s)
    searched = [row for row in trials if row.study == settings.search.sampler]
    document: PolicyDocument
    if judged.rules is not None and isinstance(found, LearnedCandidate):
        fitted = found.learned, len(found.modes)
        document = learned_document.tuned_document(split, judged, fitted, lru, gap, prices, task.model, settings)
    else:
        document = publishing.make_document(split, judged, lru, gap, prices, task.model, settings, len(searched))
    cache, engine = judged.evaluation.cache, judged.engine
    return TuneResult(
        document=document,
        verdict=verdict_of(judged, gap, verdict),
        chosen=_chosen(judged),
        reason=verdict.reason,
        setting=judged.setting,
        gain_frac=judged.gain_frac,
        gap_closed_frac=gap,
        confidence=settings.validation.confidence,
        trace=summarise(task.trace_name, task.problem.trace, cache.block_bytes),
        sizes=TierSizes(*engine.capacities),
        budgets_bytes=tuple(blocks * cache.block_bytes for blocks in engine.capacities),  # type: ignore[arg-type]
        costs=split.whole.costs,
        fit_until_s=split.fit_until_s,
        measured_from_s=float(cache.trace.arrival_s[split.held_out[0]] - cache.trace.arrival_s[0]),
        rows=table,
        curves=comparison.capacity_curves(split, judged, settings.search.workers),
        marginal=marginal,
        windows=comparison.decisions_over_time(split, judged, lru),
        trials=tuple(trials),
        importance=parameter_importance(searched, task.space, settings.search.seed),
        break_even_tokens=break_even_tokens(split.whole.costs, 0, task.problem.trace.block_tokens),
        ttft_note=task.ttft_note,
        assumptions=assumptions_of(split, judged, settings),
        wall_s=0.0,
    )


def _chosen(judged: Judged) -> str:
    if judged.rules is not None:
        return "learned"
    return "lru" if judged.changes_nothing else "tuned lru" if judged.setting.is_lru else "rank"


def summarise(name: str, trace: Trace, block_bytes: int) -> TraceSummary:
    """The trace in a few numbers, with its reuse gaps in logarithmic bins."""
    gaps_s = reuse_gaps_s(trace)
    low_s, high_s = (max(1e-3, float(gaps_s.min())), max(1.0, float(gaps_s.max()))) if len(gaps_s) else (1.0, 10.0)
    edges_s = np.geomspace(low_s, max(high_s, low_s * 10.0), _GAP_BINS + 1)
    counts, _ = np.histogram(np.maximum(gaps_s, edges_s[0]), bins=edges_s)
    return TraceSummary(
        name=name,
        requests=trace.n_requests,
        accesses=trace.n_accesses,
        span_s=trace.span_s,
        footprint_bytes=trace.n_blocks * block_bytes,
        block_tokens=trace.block_tokens,
        reuse_frac=infinite_hits(trace) / max(1, trace.n_accesses),
        gap_edges_s=tuple(edges_s.tolist()),
        gap_counts=tuple(counts.tolist()),
    )
