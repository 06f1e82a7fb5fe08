"""The study: what is tried, in which order, and that neither workers nor interruptions change it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
import pytest

from autotune.core.errors import SearchError
from autotune.core.types import Admission, Tier
from autotune.search.knob import Knob
from autotune.search.objectives.constraints import constraint
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.problem import Evaluation, Problem
from autotune.search.result import TrialRow
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import SearchSpace, load_space
from autotune.search.study import StudyPlan, best_of, parameter_importance, run_study
from autotune.sim.config import CacheConfig
from autotune.sim.queueing import QueueConfig

SAMPLERS = ("tpe", "random", "cmaes", "nsga2")
TRIALS = 14  # past the ten random ones with which TPE begins


@pytest.fixture(scope="module")
def small(device_only: Problem) -> Problem:
    """The first 700 requests, which take a few milliseconds per setting."""
    return replace(device_only, trace=device_only.trace.slice(0, 700))


@pytest.fixture(scope="module")
def space() -> SearchSpace:
    """The space that ships."""
    return load_space()


@pytest.fixture(scope="module")
def whole_studies(small: Problem, space: SearchSpace) -> dict[str, list[TrialRow]]:
    """One uninterrupted study per sampler, in memory, on one worker."""
    plan = StudyPlan(trials=TRIALS, seed=3)
    return {name: run_study(small, space, NetSeconds(), replace(plan, sampler=name)) for name in SAMPLERS}


class InterruptionError(Exception):
    """What a test interrupts a search with."""


def interrupt_after(n_trials: int) -> Callable[[TrialRow, TrialRow], None]:
    """A progress callback that ends the search once ``n_trials`` are told."""
    told: list[TrialRow] = []

    def report(row: TrialRow, best: TrialRow) -> None:
        told.append(row)
        if len(told) == n_trials:
            raise InterruptionError

    return report


@dataclass(frozen=True, slots=True)
class EndsItsProcess:
    """An objective that ends every process but the one it was made in."""

    parent: int
    name: str = "ends"
    needs_queue: bool = False

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """End the worker."""
        if os.getpid() != self.parent:
            os._exit(1)
        return 0.0


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_trial_0_is_lru(sampler: str, whole_studies: dict[str, list[TrialRow]]) -> None:
    """Every sampler tries LRU's own setting first, which is worth 0, and then others."""
    rows = whole_studies[sampler]
    assert rows[0] == TrialRow(0, sampler, LRU_SETTING, 0.0, feasible=True)
    assert [row.number for row in rows] == list(range(TRIALS))
    assert all(not row.setting.is_lru and row.value != 0.0 for row in rows[1:])


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "nsga2"])  # a child may equal its parent
def test_no_setting_is_tried_twice(sampler: str, whole_studies: dict[str, list[TrialRow]]) -> None:
    """Trials with seeds of their own do not repeat each other."""
    assert len({row.setting for row in whole_studies[sampler]}) == TRIALS


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_workers_do_not_matter(
    sampler: str,
    small: Problem,
    space: SearchSpace,
    whole_studies: dict[str, list[TrialRow]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two processes try what one tries, and find the same values."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    plan = StudyPlan(sampler=sampler, trials=TRIALS, seed=3, workers=2)
    assert run_study(small, space, NetSeconds(), plan) == whole_studies[sampler]


def test_another_seed_tries_other_settings(
    small: Problem, space: SearchSpace, whole_studies: dict[str, list[TrialRow]]
) -> None:
    """Only trial 0 is the same under another seed."""
    rows = run_study(small, space, NetSeconds(), StudyPlan(trials=4, seed=4))
    assert rows[0] == whole_studies["tpe"][0]
    assert not {row.setting for row in rows[1:]} & {row.setting for row in whole_studies["tpe"]}


def test_tpe_learns(small: Problem, space: SearchSpace, whole_studies: dict[str, list[TrialRow]]) -> None:
    """After its random start TPE draws other settings than random search with the same seed."""
    tpe, random = whole_studies["tpe"], whole_studies["random"]
    assert [row.setting for row in tpe[10:]] != [row.setting for row in random[10:]]


def test_an_unknown_sampler_lists_the_known(small: Problem, space: SearchSpace) -> None:
    """The error names what there is."""
    with pytest.raises(SearchError, match="got 'tpee'; known: tpe, random, cmaes, nsga2"):
        run_study(small, space, NetSeconds(), StudyPlan(sampler="tpee"))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("told", [1, 6, 11])
def test_an_interrupted_study_goes_on(
    sampler: str,
    told: int,
    small: Problem,
    space: SearchSpace,
    whole_studies: dict[str, list[TrialRow]],
    storage: str,
) -> None:
    """A study interrupted between two batches or within one ends as if nothing had happened."""
    plan = StudyPlan(sampler=sampler, trials=TRIALS, seed=3, storage=storage)
    with pytest.raises(InterruptionError):
        run_study(small, space, NetSeconds(), plan, on_trial=interrupt_after(told))
    assert run_study(small, space, NetSeconds(), plan) == whole_studies[sampler]


def test_a_study_interrupted_again_and_again_goes_on(
    small: Problem, space: SearchSpace, whole_studies: dict[str, list[TrialRow]], storage: str
) -> None:
    """A study of which every run tells one trial ends as if nothing had happened."""
    plan = StudyPlan(trials=TRIALS, seed=3, storage=storage)
    for _ in range(TRIALS):
        with pytest.raises(InterruptionError):
            run_study(small, space, NetSeconds(), plan, on_trial=interrupt_after(1))
    # Nothing is left to try, so nothing is told that could be interrupted.
    assert run_study(small, space, NetSeconds(), plan, on_trial=interrupt_after(1)) == whole_studies["tpe"]


def test_a_longer_study_keeps_its_trials(
    small: Problem, space: SearchSpace, whole_studies: dict[str, list[TrialRow]], storage: str
) -> None:
    """A finished study that is given more trials keeps those it has and adds the rest."""
    plan = StudyPlan(trials=6, seed=3, storage=storage)
    assert run_study(small, space, NetSeconds(), plan) == whole_studies["tpe"][:6]
    told: list[int] = []
    longer = replace(plan, trials=TRIALS)
    rows = run_study(small, space, NetSeconds(), longer, on_trial=lambda row, best: told.append(row.number))
    assert rows == whole_studies["tpe"]
    assert told == list(range(6, TRIALS))


def test_a_trial_left_running_does_not_block(small: Problem, space: SearchSpace, storage: str) -> None:
    """What a killed process had asked for and never told is tried first, and counts as one trial."""
    plan = StudyPlan(trials=4, seed=3, storage=storage)
    run_study(small, space, NetSeconds(), plan)
    stored = optuna.load_study(study_name=plan.study_name, storage=storage)
    left = stored.ask()
    told: list[int] = []
    rows = run_study(
        small, space, NetSeconds(), replace(plan, trials=8), on_trial=lambda row, best: told.append(row.number)
    )
    assert told[0] == left.number == 4
    assert [row.number for row in rows] == list(range(8))
    assert all(trial.state.is_finished() for trial in stored.get_trials())


@pytest.mark.parametrize(
    "other",
    [
        lambda problem: replace(problem, engine=CacheConfig(1001)),
        lambda problem: replace(problem, trace=problem.trace.slice(0, 699)),
        lambda problem: replace(problem, costs=replace(problem.costs, load_latency_s=1.0)),
        lambda problem: replace(problem, engine=CacheConfig(1000, 400), ranked=Tier.HOST),
        lambda problem: replace(problem, queue=QueueConfig(servers=2)),
    ],
)
def test_another_problems_study_is_refused(
    other: Callable[[Problem], Problem], small: Problem, space: SearchSpace, storage: str
) -> None:
    """A stored study does not go on for another engine, trace, cost model, tier or queue."""
    plan = StudyPlan(trials=2, storage=storage)
    run_study(small, space, NetSeconds(), plan)
    with pytest.raises(SearchError, match=r"goes on with the search it was begun for.*another --study"):
        run_study(other(small), space, NetSeconds(), plan)


def test_another_goals_study_is_refused(small: Problem, space: SearchSpace, storage: str) -> None:
    """A stored study does not go on for another space, objective, limit or first setting."""
    plan = StudyPlan(trials=2, storage=storage)
    run_study(small, space, NetSeconds(), plan)
    message = "goes on with the search it was begun for"
    with pytest.raises(SearchError, match=message):
        run_study(small, load_space("full"), NetSeconds(), plan)
    with pytest.raises(SearchError, match=message):
        run_study(small, space, NetSeconds(risk=0.0), plan)
    with pytest.raises(SearchError, match=message):
        run_study(small, space, NetSeconds(), plan, (constraint("stored_bytes"),))
    with pytest.raises(SearchError, match=message):
        run_study(small, space, NetSeconds(), replace(plan, first=(Setting(0.5),)))


@pytest.mark.parametrize("text", [None, "not a database, but long enough to be taken for one by its size\n" * 40])
def test_a_study_that_cannot_be_kept_is_one_line(
    text: str | None, small: Problem, space: SearchSpace, tmp_path: Path
) -> None:
    """A folder that is not there and a file of another kind are refused in one line with the file's name."""
    file = tmp_path / "folder" / "study.db"
    if text is not None:
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    with pytest.raises(SearchError, match=r"kept in an SQLite file.*study\.db") as caught:
        run_study(small, space, NetSeconds(), StudyPlan(trials=2, storage=f"sqlite:///{file}"))
    assert "\n" not in str(caught.value)


def test_a_worker_that_dies_is_one_line(small: Problem, space: SearchSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed ends the search with an error that says what to do."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(SearchError, match=r"must live until its end.*--workers 1"):
        run_study(small, space, EndsItsProcess(os.getpid()), StudyPlan(trials=4, workers=2))


def test_an_error_of_a_worker_arrives_whole(
    small: Problem, space: SearchSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error raised on purpose in a worker says the same as it would in the process itself."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    limits = (constraint("ttft_p99"),)
    errors = []
    for workers in (1, 2):
        with pytest.raises(SearchError) as caught:
            run_study(small, space, NetSeconds(), StudyPlan(trials=2, workers=workers), limits)
        errors.append((str(caught.value), caught.value.rule, caught.value.got, caught.value.remedy))
    assert errors[0] == errors[1]


def test_progress_reports_the_best_so_far(small: Problem, space: SearchSpace) -> None:
    """The callback hears of every trial, with the best of all so far."""
    heard: list[tuple[TrialRow, TrialRow]] = []
    rows = run_study(
        small, space, NetSeconds(), StudyPlan(trials=6, seed=3), on_trial=lambda row, best: heard.append((row, best))
    )
    assert [row for row, _ in heard] == rows
    assert [best for _, best in heard] == [best_of(rows[: n + 1]) for n in range(6)]


def row(number: int, value: float, *, feasible: bool = True) -> TrialRow:
    """A trial."""
    return TrialRow(number, "tpe", Setting(lambda_recency=1.0 / (number + 1)), value, feasible)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([row(0, 0.0), row(1, -0.2), row(2, -0.1)], 1),
        ([row(0, 0.0), row(1, -0.2, feasible=False), row(2, -0.1)], 2),
        ([row(0, 0.0), row(1, -0.1), row(2, -0.1)], 1),
        ([row(0, 0.0), row(1, 0.3)], 0),
        ([row(0, 0.0, feasible=False), row(1, -0.3, feasible=False)], 0),
    ],
)
def test_best_of_keeps_limits(rows: list[TrialRow], best: int) -> None:
    """The best is the feasible trial with the smallest value, the first of equals, and LRU where none is feasible."""
    assert best_of(rows).number == best


def test_a_limit_divides_the_trials(with_host: Problem) -> None:
    """A trial is feasible exactly if it stores no more than LRU, and the best one is."""
    problem = replace(with_host, trace=with_host.trace.slice(0, 700))
    rows = run_study(problem, load_space("full"), NetSeconds(), StudyPlan(trials=TRIALS), (constraint("stored_bytes"),))
    most = problem.baseline.totals.stored_bytes
    stored = [problem.evaluate(row.setting).totals.stored_bytes for row in rows]
    assert [row.feasible for row in rows] == [n_bytes <= most for n_bytes in stored]
    assert {row.feasible for row in rows} == {True, False}
    assert best_of(rows).feasible


def test_a_limit_that_nothing_keeps_leaves_lru(small: Problem, space: SearchSpace) -> None:
    """Where only LRU keeps the limit, LRU is the best, whatever the others gain."""

    def only_lru(evaluation: Evaluation, baseline: Evaluation) -> float:
        return float(evaluation.totals.cost_s != baseline.totals.cost_s)

    rows = run_study(small, space, NetSeconds(), StudyPlan(trials=8, seed=3), (only_lru,))
    assert min(row.value for row in rows) < 0.0
    assert best_of(rows).setting == LRU_SETTING


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fixed_knobs_are_tried_beside_lru(sampler: str, small: Problem, space: SearchSpace) -> None:
    """In a space of which no knob moves, trial 0 is LRU and every other the one setting there is."""
    only = Setting(0.25, 1.0, 16.0, 0.5, 8.0, Admission.MARGINAL)
    fixed = space.model_copy(update={name: Knob(value=getattr(only, name)) for name in space.moving()})
    rows = run_study(small, fixed, NetSeconds(), StudyPlan(sampler=sampler, trials=3))
    assert [row.setting for row in rows] == [LRU_SETTING, only, only]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_moves_every_knob(sampler: str, with_host: Problem) -> None:
    """Each sampler searches the full space, of which every knob moves, within its bounds."""
    problem = replace(with_host, trace=with_host.trace.slice(0, 300), engine=CacheConfig(100, 500))
    space = load_space("full")
    rows = run_study(problem, space, NetSeconds(), StudyPlan(sampler=sampler, trials=8))
    for name in space.moving():
        assert len({getattr(row.setting, name) for row in rows[1:]}) > 1
    assert all(space.draw(optuna.trial.FixedTrial(space.parameters_of(r.setting))) == r.setting for r in rows[1:])


def test_importance_is_a_share(whole_studies: dict[str, list[TrialRow]], space: SearchSpace) -> None:
    """The shares of all moving knobs sum to 1, the largest first, and depend on the seed only."""
    shares = parameter_importance(whole_studies["random"], space, 0)
    assert {name for name, _ in shares} == set(space.moving())
    assert sum(share for _, share in shares) == pytest.approx(1.0)
    assert all(share >= 0.0 for _, share in shares)
    assert [share for _, share in shares] == sorted((share for _, share in shares), reverse=True)
    assert parameter_importance(whole_studies["random"], space, 0) == shares


def test_importance_finds_what_matters(whole_studies: dict[str, list[TrialRow]], space: SearchSpace) -> None:
    """Where the value is that of one knob, this knob explains nearly all of it."""
    rows = [replace(row, value=row.setting.cost_weight) for row in whole_studies["random"][1:]]
    name, share = parameter_importance(rows, space, 0)[0]
    assert name == "cost_weight"
    assert share > 0.8


def test_importance_needs_trials_that_differ(whole_studies: dict[str, list[TrialRow]], space: SearchSpace) -> None:
    """Too few trials, equal values or one knob explain nothing."""
    rows = whole_studies["random"]
    assert parameter_importance(rows[:4], space, 0) == ()
    assert parameter_importance([replace(row, value=0.5) for row in rows], space, 0) == ()
