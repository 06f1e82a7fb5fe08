"""The Optuna study: draws settings, has them evaluated side by side, and remembers every one of them."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, CmaEsSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from autotune.core.errors import SearchError
from autotune.search.objectives.base import Objective
from autotune.search.objectives.constraints import Constraint
from autotune.search.problem import Problem
from autotune.search.result import TrialRow
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import SearchSpace

# Settings drawn before the first of them is told: fixed, so that the result does not depend on how many workers run.
BATCH = 2
_MARK = "search"
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

    The same plan gives the same trials, whatever the number of workers and however often a stored study was
    interrupted: it goes on where it stopped, beginning with what was being evaluated then.

    Returns:
        All trials of the study, in order.

    Raises:
        SearchError: the sampler is unknown, or a stored study belongs to another search or cannot be read or written.
    """
    with storage_errors(plan.storage), _pool(plan.workers, problem, objective, constraints) as evaluate:
        study = open_study(plan.storage, plan.study_name, _mark(problem, space, objective, plan, constraints))
        if not study.trials:
            for setting in (problem.own_setting, *plan.first):
                study.enqueue_trial(space.parameters_of(setting))
        done = [row for row in map(_row(plan.sampler), study.trials) if row]
        while len(done) < plan.trials:
            batch = _next_batch(study, space, plan, len(done))
            outcomes = evaluate([setting for _, setting in batch])
            for (trial, setting), outcome in zip(batch, outcomes, strict=True):
                done.append(_tell(study, trial, setting, outcome, plan.sampler))
                if on_trial:
                    on_trial(done[-1], best_of(done))
    return sorted(done, key=lambda row: row.number)


def _next_batch(study: Study, space: SearchSpace, plan: StudyPlan, n_done: int) -> list[tuple[Trial, Setting]]:
    """The trials to evaluate next: those that an interruption left without a value, then new ones.

    Every trial is drawn with a seed of its own, so that a study which goes on draws what it would have drawn.
    """
    left = [trial._trial_id for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))]
    end = min(plan.trials, -(-max(n_done + len(left), n_done + 1) // BATCH) * BATCH)
    batch = []
    for position in range(max(len(left), end - n_done)):
        study.sampler = sampler_of(plan.sampler, plan.seed, plan.trials, n_done + position)
        trial = Trial(study, left[position]) if position < len(left) else study.ask()
        drawn = space.draw(trial)
        batch.append((trial, drawn if trial.number else LRU_SETTING))
    return batch


def best_of(rows: list[TrialRow]) -> TrialRow:
    """The feasible trial with the smallest value; the first of equals; LRU's own if none is feasible."""
    feasible = [row for row in rows if row.feasible] or rows[:1]
    return min(feasible, key=lambda row: (row.value, row.number))


def parameter_importance(rows: list[TrialRow], space: SearchSpace, seed: int) -> tuple[tuple[str, float], ...]:
    """How much each knob explains the objective, largest first; empty where too few trials or knobs moved.

    Source: fANOVA (Hutter et al., 2014) as implemented in Optuna.
    """
    names = space.moving()
    tried = [row for row in rows if not row.setting.changes_nothing]  # LRU itself is no point of the space
    if len(names) < 2 or len(tried) < 4 or len({row.value for row in tried}) == 1:
        return ()
    study = optuna.create_study()
    for row in tried:
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to deal with
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


@contextmanager
def storage_errors(storage: str | None) -> Iterator[None]:
    """Say in one line what is wrong with a stored study, or that a process died."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise SearchError(
            "a study is kept in an SQLite file that can be read and written",
            got=f"{storage}: {reason}",
            remedy="give another --study file in a folder that exists",
        ) from error
    except BrokenProcessPool as error:
        raise SearchError(
            "the processes of the search must live until its end",
            got="one that was killed, perhaps for want of memory",
            remedy="use --workers 1",
        ) from error


def open_study(storage: str | BaseStorage | None, name: str, mark: str, pruner: BasePruner | None = None) -> Study:
    """A new study, or the stored one of that name.

    Args:
        storage: Where it is kept; None keeps it in memory.
        name: Name within the storage.
        mark: Stands for everything that the values of the study depend on.
        pruner: Says which trials are not worth finishing.

    Raises:
        SearchError: the stored study has another mark.
    """
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=storage is not None, pruner=pruner)
    if study.user_attrs.get(_MARK, mark) != mark:
        raise SearchError(
            "a stored study goes on with the search it was begun for",
            got=f"study {name!r} of another trace, engine, cost model, objective or search space",
            remedy="give another --study file",
        )
    study.set_user_attr(_MARK, mark)
    return study


def _mark(
    problem: Problem,
    space: SearchSpace,
    objective: Objective,
    plan: StudyPlan,
    constraints: tuple[Constraint, ...],
) -> str:
    """Hash over everything that the value of a setting, or the order in which settings are tried, depends on."""
    past = (problem.trace.provenance, problem.trace.n_requests, problem.trace.span_s)
    goal = (_identity(objective), [_identity(limit) for limit in constraints], plan.first)
    parts = (past, problem.engine, problem.costs, problem.ranked, problem.queue, goal)
    return hashlib.sha256(f"{parts}{space.model_dump_json()}".encode()).hexdigest()


def _identity(part: object) -> object:
    """What stands for a plug-in: its values, or its name; its address would be another one in every process."""
    return part if is_dataclass(part) else getattr(part, "__qualname__", type(part).__qualname__)


def sampler_of(name: str, seed: int, trials: int, number: int, *, grouped: bool = False) -> BaseSampler:
    """The sampler that draws trial ``number`` of ``trials``.

    Args:
        name: ``tpe``, ``random``, ``cmaes`` or ``nsga2``.
        seed: Seed of the search.
        trials: How many there will be.
        number: Which one.
        grouped: Whether some parameters occur only together with others, so that they are drawn group by group.

    Raises:
        SearchError: there is no sampler of that name.
    """
    seed = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "tpe":
            return TPESampler(seed=seed, multivariate=True, group=grouped, constant_liar=True)
        if name == "random":
            return RandomSampler(seed=seed)
        if name == "cmaes":
            return CmaEsSampler(seed=seed, warn_independent_sampling=False)
        if name == "nsga2":
            return NSGAIISampler(seed=seed, population_size=max(4, min(50, trials // 4)))
    raise SearchError("a sampler is known by name", got=repr(name), remedy="known: tpe, random, cmaes, nsga2")


def _tell(study: Study, trial: Trial, setting: Setting, outcome: Outcome, name: str) -> TrialRow:
    value, limits = outcome
    for number, limit in enumerate(limits):
        trial.set_constraint(str(number), limit)
    trial.set_user_attr(_SETTING, {**asdict(setting), "admission": str(setting.admission)})
    study.tell(trial, value)
    return TrialRow(trial.number, name, setting, value, feasible=all(limit <= 0.0 for limit in limits))


def _row(name: str) -> Callable[[FrozenTrial], TrialRow | None]:
    def convert(trial: FrozenTrial) -> TrialRow | None:
        if trial.state is not TrialState.COMPLETE or trial.value is None:
            return None  # waiting, or left without a value by an interruption
        stored = dict(trial.user_attrs[_SETTING])
        setting = Setting(**{**stored, "admission": type(Setting().admission)(stored["admission"])})
        feasible = all(limit <= 0.0 for limit in trial.constraints.values())
        return TrialRow(trial.number, name, setting, trial.value, feasible=feasible)

    return convert


def _as_frozen(row: TrialRow, space: SearchSpace) -> FrozenTrial:
    params = space.parameters_of(row.setting)
    return optuna.trial.create_trial(params=params, distributions=space.distributions(), value=row.value)
