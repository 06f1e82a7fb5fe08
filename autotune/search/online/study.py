"""The Optuna study over the loop's settings or over both rules: draws, runs cheapest cases first, drops what lags."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.core.errors import SearchError
from autotune.online.settings import OnlineSettings
from autotune.search.knob import Suggests, Value
from autotune.search.online.case import Case, cheapest_first
from autotune.search.online.joint_setting import JointSetting
from autotune.search.online.setting import LoopSetting
from autotune.search.study import open_study, sampler_of, storage_errors

JOURNAL_SUFFIX = ".jsonl"
_SETTING, _CLOSED = "setting", "closed_frac"
S = TypeVar("S", bound=LoopSetting | JointSetting)


class SettingSpace(Protocol[S]):
    """A space that a study searches: that of the loop, or that of both rules.

    Attributes:
        grouped: Whether some knobs are drawn only together with others.
    """

    grouped: ClassVar[bool]

    def draw(self, trial: Suggests) -> S:
        """The setting that a trial stands for."""

    def parameters_of(self, setting: S) -> dict[str, Value]:
        """Parameters of the trial that stands for a setting, or comes closest to it."""

    def default(self, base: OnlineSettings) -> S:
        """The fixed default."""

    def stored(self, setting: S) -> dict[str, Any]:
        """The setting as JSON has it."""

    def restored(self, values: dict[str, Any]) -> S:
        """The setting that was stored."""

    def model_dump_json(self) -> str:
        """Everything that the space says."""


@dataclass(frozen=True, slots=True)
class LoopTrial(Generic[S]):
    """One setting that was tried.

    Attributes:
        number: Position in the study.
        sampler: Who drew it.
        setting: The setting.
        closed_frac: Share of the gap that it closed on each case, cheapest first, the shadow's weighed in; a pruned
            trial has fewer.
        value: What is maximised; of a pruned trial, on the cases that it ran.
        pruned: Whether it was given up before the last case.
    """

    number: int
    sampler: str
    setting: S
    closed_frac: tuple[float, ...]
    value: float
    pruned: bool


@dataclass(frozen=True, slots=True)
class LoopPlan(Generic[S]):
    """How to search.

    Attributes:
        sampler: ``tpe``, ``random``, ``cmaes`` or ``nsga2``.
        trials: Settings to try, the fixed default and pruned ones included.
        seed: Seed of the sampler.
        spread_weight: What is taken off the mean over the cases, in standard deviations of what a setting gains over
            the fixed default there; 0 = the mean alone, 1 = prefer what helps everywhere.
        shadow_weight: Weight of what the rule closes where no guard holds it back, beside what was closed. When the
            guard's periods end is partly luck, which on a short trace would decide between settings.
        prune_after: Finished trials before any is pruned; ``None`` = never prune.
        storage: ``FILE.jsonl``, a journal to go on with, or an SQLAlchemy URL; ``None`` keeps the study in memory.
        study_name: Name within that storage.
        first: Settings to try right after the fixed default.
        base: What no knob says: the guard, limits of memory, the loop's seed.
    """

    sampler: str = "tpe"
    trials: int = 40
    seed: int = 0
    spread_weight: float = 0.0
    shadow_weight: float = 0.5
    prune_after: int | None = 8
    storage: str | None = None
    study_name: str = "kv-autotune-online"
    first: tuple[S, ...] = ()
    base: OnlineSettings = field(default=OnlineSettings())


def search_loop(
    cases: Sequence[Case],
    space: SettingSpace[S],
    plan: LoopPlan[S],
    on_trial: Callable[[LoopTrial[S], LoopTrial[S]], None] | None = None,
) -> list[LoopTrial[S]]:
    """Try settings on all cases; trial 0 is the fixed default, as near as the space allows.

    The same plan gives the same trials, however often a stored study was interrupted.

    Args:
        cases: What to try them on.
        space: Where to search.
        plan: How to search.
        on_trial: Told of every trial, with the best so far.

    Returns:
        All trials of the study, in order.

    Raises:
        SearchError: there is no case, the sampler is unknown, or a stored study belongs to another search or cannot be
            read or written.
    """
    if not cases:
        raise SearchError("a search needs at least one case", got="none", remedy="give a trace")
    ordered = cheapest_first(cases)
    with storage_errors(plan.storage):
        study = open_study(_storage(plan.storage), plan.study_name, _mark(ordered, space, plan), _pruner(plan))
        if not study.trials:
            for setting in dict.fromkeys((space.default(plan.base), *plan.first)):
                study.enqueue_trial(space.parameters_of(setting))
        done = [_row(trial, study, space, plan) for trial in study.trials if _is_told(trial)]
        while len(done) < plan.trials:
            done.append(_next(study, ordered, space, plan))
            if on_trial:
                on_trial(done[-1], best_loop(done))
    return sorted(done, key=lambda row: row.number)


def best_loop(rows: Sequence[LoopTrial[S]]) -> LoopTrial[S]:
    """The finished trial with the largest value, the first of equals."""
    return max((row for row in rows if not row.pruned), key=lambda row: (row.value, -row.number))


def worth(closed_frac: Sequence[float], default_frac: Sequence[float], spread_weight: float) -> float:
    """What is maximised: the mean over the cases, less so many standard deviations of the gain over the default.

    Cases differ in how much of their gap anything can close, so the spread of the shares themselves would say little.

    Args:
        closed_frac: Share of the gap closed on each case, or on the first of them.
        default_frac: The same of the fixed default, on as many cases or more.
        spread_weight: Standard deviations to take off.
    """
    gain = np.subtract(closed_frac, default_frac[: len(closed_frac)])
    return float(np.mean(closed_frac) - spread_weight * np.std(gain))


def _next(study: Study, cases: tuple[Case, ...], space: SettingSpace[S], plan: LoopPlan[S]) -> LoopTrial[S]:
    """Draw a setting, or take up the one that an interruption left, and run it."""
    left = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    number = left[0].number if left else len([t for t in study.get_trials(deepcopy=False) if _is_told(t)])
    study.sampler = sampler_of(plan.sampler, plan.seed, plan.trials, number, grouped=space.grouped)
    trial = Trial(study, left[0]._trial_id) if left else study.ask()
    setting = space.draw(trial)
    closed: list[float] = []
    for step, case in enumerate(cases):
        closed.append(case.evaluate(setting, plan.base).share(plan.shadow_weight))
        trial.report(-_value(study, closed, plan), step)
        if len(closed) < len(cases) and trial.should_prune():
            break
    trial.set_user_attr(_SETTING, space.stored(setting))
    trial.set_user_attr(_CLOSED, closed)
    return _tell(study, trial, setting, closed, plan, pruned=len(closed) < len(cases))


def _tell(
    study: Study, trial: Trial, setting: S, closed: list[float], plan: LoopPlan[S], *, pruned: bool
) -> LoopTrial[S]:
    value = _value(study, closed, plan)
    if pruned:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, -value)
    return LoopTrial(trial.number, plan.sampler, setting, tuple(closed), value, pruned)


def _is_told(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED)


def _value(study: Study, closed: Sequence[float], plan: LoopPlan[S]) -> float:
    """Worth against trial 0, the default; while it runs itself, against itself."""
    default = study.trials[0].user_attrs.get(_CLOSED, closed)
    return worth(closed, default, plan.spread_weight)


def _row(trial: FrozenTrial, study: Study, space: SettingSpace[S], plan: LoopPlan[S]) -> LoopTrial[S]:
    setting = space.restored(dict(trial.user_attrs[_SETTING]))
    closed = tuple(trial.user_attrs[_CLOSED])
    pruned = trial.state is TrialState.PRUNED
    return LoopTrial(trial.number, plan.sampler, setting, closed, _value(study, closed, plan), pruned)


def _pruner(plan: LoopPlan[S]) -> BasePruner:
    """Gives up what is worse on the cases so far than the median of the trials that were finished.

    Whole cases are left out, not the end of each: the loop runs from the start of its trace, so that stopping short
    within one would save little.
    """
    return NopPruner() if plan.prune_after is None else MedianPruner(n_startup_trials=plan.prune_after)


def _storage(storage: str | None) -> str | BaseStorage | None:
    """What Optuna keeps the study in: a journal where a file of that kind is named.

    Raises:
        SearchError: the journal cannot be written, or is none.
    """
    if storage is None or not storage.endswith(JOURNAL_SUFFIX) or "://" in storage:
        return storage
    try:
        return JournalStorage(JournalFileBackend(storage))
    except (OSError, ValueError, KeyError, TypeError) as error:  # what Optuna makes of lines that are not its own
        raise SearchError(
            "a study is kept in a journal that can be read and written",
            got=f"{storage}: {error}",
            remedy="name another file in a folder that exists",
        ) from error


def _mark(cases: tuple[Case, ...], space: SettingSpace[S], plan: LoopPlan[S]) -> str:
    """Hash over everything that the value of a setting, or the order in which settings are tried, depends on."""
    problems = [
        (case.name, case.trace.provenance, case.trace.n_requests, case.config, case.costs, case.start) for case in cases
    ]
    goal = (plan.sampler, plan.seed, plan.spread_weight, plan.shadow_weight, plan.prune_after, plan.first, plan.base)
    return hashlib.sha256(f"{problems}{goal}{space.model_dump_json()}".encode()).hexdigest()
