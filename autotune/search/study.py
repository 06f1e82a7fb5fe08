"""The Optuna study: draws settings, has them evaluated side by side, and remembers every one of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import optuna
from optuna.samplers import BaseSampler, CmaEsSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.core.errors import SearchError
from autotune.search.objectives.base import Objective
from autotune.search.objectives.constraints import Constraint
from autotune.search.problem import Problem
from autotune.search.result import TrialRow
from autotune.search.setting import Setting
from autotune.search.space import SearchSpace

# Settings drawn before the first of them is told: fixed, so that the result does not depend on how many workers run.
BATCH = 2
_CONSTRAINTS = "constraints"
_SETTING = "setting"
Progress = Callable[[TrialRow, TrialRow], None]

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """How to search.

    Attributes:
        sampler: ``tpe``, ``random``, ``cmaes`` or ``nsga2``.
        trials: Settings to try, LRU's own included.
        seed: Seed of the sampler.
        workers: Processes that evaluate settings.
        storage: SQLAlchemy URL of a study to resume; None keeps it in memory.
        study_name: Name within that storage.
        first: Settings to try right after LRU's own.
    """

    sampler: str = "tpe"
    trials: int = 100
    seed: int = 0
    workers: int = 1
    storage: str | None = None
    study_name: str = "kv-autotune"
    first: tuple[Setting, ...] = ()


def run_study(
    problem: Problem,
    space: SearchSpace,
    objective: Objective,
    plan: StudyPlan,
    constraints: tuple[Constraint, ...] = (),
    on_trial: Progress | None = None,
) -> list[TrialRow]:
    """Try settings on a problem; LRU's own is trial 0.

    The same plan gives the same trials, whatever the number of workers. A stored study goes on where it stopped.

    Returns:
        All trials of the study, in order.

    Raises:
        SearchError: the sampler is unknown, or a stored study belongs to another problem.
    """
    study = _open(plan, problem, bool(constraints))
    if not study.trials:
        for setting in (Setting(), *plan.first):
            study.enqueue_trial(space.parameters_of(setting))
    done = [row for row in map(_row(plan.sampler), study.trials) if row]
    with _pool(plan.workers, problem, objective, constraints) as evaluate:
        while len(done) < plan.trials:
            asked = [study.ask() for _ in range(min(BATCH, plan.trials - len(done)))]
            settings = [space.draw(trial) for trial in asked]
            for trial, setting, outcome in zip(asked, settings, evaluate(settings), strict=True):
                done.append(_tell(study, trial, setting, outcome, plan.sampler))
                if on_trial:
                    on_trial(done[-1], best_of(done))
    return done


def best_of(rows: list[TrialRow]) -> TrialRow:
    """The feasible trial with the smallest value; the first of equals; LRU's own if none is feasible."""
    feasible = [row for row in rows if row.feasible] or rows[:1]
    return min(feasible, key=lambda row: (row.value, row.number))


def parameter_importance(rows: list[TrialRow], space: SearchSpace, seed: int) -> tuple[tuple[str, float], ...]:
    """How much each knob explains the objective, largest first; empty where too few trials or knobs moved.

    Source: fANOVA (Hutter et al., 2014) as implemented in Optuna.
    """
    names = space.moving()
    if len(names) < 2 or len(rows) < 4:
        return ()
    study = optuna.create_study()
    for row in rows:
        study.add_trial(_as_frozen(row, space))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=seed)
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return tuple(sorted(shares.items(), key=lambda item: -item[1]))


Outcome = tuple[float, tuple[float, ...]]


def evaluate_setting(
    problem: Problem, objective: Objective, constraints: tuple[Constraint, ...], setting: Setting
) -> Outcome:
    """Value and constraint values of one setting."""
    evaluation = problem.evaluate(setting)
    limits = tuple(limit(evaluation, problem.baseline) for limit in constraints)
    return objective.value(evaluation, problem.baseline), limits


# What a worker process works on, set once when it starts: sending the trace with every setting would cost more than
# the simulation.
_work: list[tuple[Problem, Objective, tuple[Constraint, ...]]] = []


def _start_worker(problem: Problem, objective: Objective, constraints: tuple[Constraint, ...]) -> None:
    _work[:] = [(problem, objective, constraints)]


def _work_on(setting: Setting) -> Outcome:
    problem, objective, constraints = _work[0]
    return evaluate_setting(problem, objective, constraints, setting)


@contextmanager
def _pool(
    workers: int, problem: Problem, objective: Objective, constraints: tuple[Constraint, ...]
) -> Iterator[Callable[[list[Setting]], list[Outcome]]]:
    problem.baseline  # noqa: B018  computed before the fork, so that every worker has it
    if workers <= 1 or (os.cpu_count() or 1) == 1:
        yield lambda settings: [evaluate_setting(problem, objective, constraints, s) for s in settings]
        return
    executor: Executor = ProcessPoolExecutor(
        min(workers, BATCH),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_start_worker,
        initargs=(problem, objective, constraints),
    )
    with executor:
        yield lambda settings: list(executor.map(_work_on, settings))


def _open(plan: StudyPlan, problem: Problem, constrained: bool) -> Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = _sampler(plan, constrained)
    study = optuna.create_study(
        sampler=sampler, storage=plan.storage, study_name=plan.study_name, load_if_exists=plan.storage is not None
    )
    mark = json.dumps([problem.trace.provenance.sha256, problem.trace.n_requests, list(problem.engine.capacities)])
    known = study.user_attrs.get("problem", mark)
    if known != mark:
        raise SearchError(
            "a stored study goes on with the problem it was begun for",
            got=f"study {plan.study_name!r} of another trace or other capacities",
            remedy="give another --study name",
        )
    study.set_user_attr("problem", mark)
    return study


def _constraints_of(trial: FrozenTrial) -> tuple[float, ...]:
    return tuple(trial.user_attrs.get(_CONSTRAINTS, ()))


def _sampler(plan: StudyPlan, constrained: bool) -> BaseSampler:
    limits = _constraints_of if constrained else None
    if plan.sampler == "tpe":
        return TPESampler(seed=plan.seed, multivariate=True, constant_liar=True, constraints_func=limits)
    if plan.sampler == "random":
        return RandomSampler(seed=plan.seed)
    if plan.sampler == "cmaes":
        return CmaEsSampler(seed=plan.seed, warn_independent_sampling=False)
    if plan.sampler == "nsga2":
        return NSGAIISampler(seed=plan.seed, population_size=max(4, min(50, plan.trials // 4)), constraints_func=limits)
    raise SearchError("a sampler is known by name", got=repr(plan.sampler), remedy="known: tpe, random, cmaes, nsga2")


def _tell(study: Study, trial: Trial, setting: Setting, outcome: Outcome, name: str) -> TrialRow:
    value, limits = outcome
    trial.set_user_attr(_CONSTRAINTS, list(limits))
    trial.set_user_attr(_SETTING, {**asdict(setting), "admission": str(setting.admission)})
    study.tell(trial, value)
    return TrialRow(trial.number, name, setting, value, feasible=all(limit <= 0.0 for limit in limits))


def _row(name: str) -> Callable[[FrozenTrial], TrialRow | None]:
    def convert(trial: FrozenTrial) -> TrialRow | None:
        if trial.state is not TrialState.COMPLETE or trial.value is None:
            return None  # a crash between ask and tell leaves a trial without a value; it is asked anew
        stored = dict(trial.user_attrs[_SETTING])
        setting = Setting(**{**stored, "admission": type(Setting().admission)(stored["admission"])})
        feasible = all(limit <= 0.0 for limit in _constraints_of(trial))
        return TrialRow(trial.number, name, setting, trial.value, feasible=feasible)

    return convert


def _as_frozen(row: TrialRow, space: SearchSpace) -> FrozenTrial:
    params = space.parameters_of(row.setting)
    return optuna.trial.create_trial(params=params, distributions=space.distributions(), value=row.value)
