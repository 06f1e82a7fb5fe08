"""The search: Optuna draws p, d, placement and batch within a memory budget; an engine runs them without a restart."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import optuna
from optuna.samplers import TPESampler
from optuna.trial import Trial, TrialState

from autotune.core.errors import SearchError
from autotune.core.streaming import (
    GenerationEngine,
    GenerationSetting,
    NotRun,
    Placement,
    Workload,
    fit_resident_layers,
)
from autotune.search.streaming.measure import layer_bytes, measure, planned_bytes
from autotune.search.streaming.result import Comparison, StreamingResult, StreamingRow, StreamingSpace, not_run

FIXED = "p = 0, d = 1"
NATIVE = "the engine's own offloaded cache"
_TURNS = 3
_NATIVE_SLOTS = 2  # the layer computed, and one prefetched

Progress = Callable[[int, int, float], None]

optuna.logging.set_verbosity(optuna.logging.WARNING)


def tune_streaming(
    engine: GenerationEngine,
    space: StreamingSpace,
    workload: Workload,
    *,
    trials: int = 24,
    seed: int = 0,
    link_is_simulated: bool = False,
    on_trial: Progress | None = None,
) -> StreamingResult:
    """Find the setting with the least time per token whose KV stays within the device budget.

    Tries p = 0, d = 1 first, with each batch, and then what fits beside one prefetched layer. The best setting is
    measured again at the end, in turns with the best of p = 0, d = 1, and given up for it where it is not faster.

    Args:
        engine: Runs generations.
        space: Budget and bounds.
        workload: What the engine generates.
        trials: Settings to draw.
        seed: Of the sampler.
        link_is_simulated: For the record.
        on_trial: Called with trials done, trials in all and the best time per token.

    Raises:
        SearchError: the budget does not hold two slots for one sequence, or there are no trials.
    """
    if trials < 1:
        raise SearchError("a search has at least one trial", got=trials, remedy="use --trials 24")
    search = _Search(engine, space, workload)
    study = optuna.create_study(sampler=TPESampler(seed=seed, n_startup_trials=max(4, trials // 3)))
    search.enqueue_starts(study)
    for done in range(1, trials + 1):
        search.run_trial(study)
        if on_trial:
            on_trial(done, trials, search.best().token_s)
    chosen, comparisons = search.confirm()
    return StreamingResult(
        model=engine.describe(),
        workload=workload,
        space=space,
        load_bytes_per_s=search.load_bytes_per_s[chosen.setting.batch],
        link_is_simulated=link_is_simulated,
        rows=tuple(search.rows.values()),
        chosen=chosen,
        comparisons=comparisons,
        unfit=search.unfit,
        seed=seed,
    )


class _Search:
    def __init__(self, engine: GenerationEngine, space: StreamingSpace, workload: Workload) -> None:
        self.rows: dict[GenerationSetting, StreamingRow] = {}
        self.load_bytes_per_s: dict[int, float] = {}
        self.unfit = 0
        self._engine = engine
        self._space = space
        self._workload = workload
        self._kv = engine.describe()

    def fixed_settings(self) -> list[GenerationSetting]:
        """What a fixed design would run: p = 0 and d = 1, with each batch that fits.

        Raises:
            SearchError: not even one sequence fits.
        """
        fitting = [batch for batch in self._space.batches if self._fit(batch, 1) is not None]
        if not fitting:
            need = 2 * layer_bytes(self._kv, self._workload, 1)
            raise SearchError(
                f"the device budget holds two slots for one sequence, {need} bytes",
                got=f"{self._space.budget_bytes} bytes",
                remedy="raise --device-gib or shorten --prompt-tokens",
            )
        return [GenerationSetting(0, 1, Placement.EVEN, batch) for batch in fitting]

    def enqueue_starts(self, study: optuna.Study) -> None:
        """Have them tried first, and then what fits beside one prefetched layer."""
        fixed = self.fixed_settings()
        starts = [(setting.batch, 0.0) for setting in fixed] + [(setting.batch, 1.0) for setting in fixed]
        for batch, share in starts:
            study.enqueue_trial(
                {"batch": batch, "prefetch_depth": 1, "placement": Placement.EVEN.value, "share_of_room": share}
            )

    def run_trial(self, study: optuna.Study) -> None:
        """Draw a setting; run it unless it is too large or known."""
        trial = study.ask()
        setting = self._draw(trial)
        if setting is None:
            self.unfit += 1
            study.tell(trial, state=TrialState.PRUNED)
            return
        study.tell(trial, self._row(setting).token_s)

    def best(self) -> StreamingRow:
        """The setting with the least time per token so far."""
        return min(self.rows.values(), key=lambda row: row.token_s)

    def confirm(self) -> tuple[StreamingRow, tuple[Comparison, ...]]:
        """The best setting, measured again in turns with what it has to beat."""
        best = self.best()
        fixed = min((self._row(setting) for setting in self.fixed_settings()), key=lambda row: row.token_s).setting
        settings = (best.setting, fixed)
        turns = [[self._engine.run(each).step_s / each.batch for each in settings] for _ in range(_TURNS)]
        best_s, fixed_s = (median(turn[i] for turn in turns) for i in range(2))
        chosen, chosen_s = (best, best_s) if best_s <= fixed_s else (self._row(fixed), fixed_s)
        against_fixed = Comparison(FIXED, fixed, fixed_s, chosen_s)
        return chosen, (against_fixed, self._against_native(chosen_s))

    def _against_native(self, chosen_s: float) -> Comparison:
        slots_fit = [
            batch
            for batch in self._space.batches
            if _NATIVE_SLOTS * layer_bytes(self._kv, self._workload, batch) <= self._space.budget_bytes
        ]
        batch = slots_fit[-1]
        step_s = self._engine.run_native_offload(batch)
        if isinstance(step_s, NotRun):
            return not_run(NATIVE, step_s, chosen_s)
        return Comparison(NATIVE, None, step_s / batch, chosen_s)

    def _draw(self, trial: Trial) -> GenerationSetting | None:
        batch = trial.suggest_categorical("batch", self._space.batches)
        depth = trial.suggest_int("prefetch_depth", 0, self._space.max_depth)
        placement = Placement(trial.suggest_categorical("placement", [each.value for each in Placement]))
        share = trial.suggest_float("share_of_room", 0.0, 1.0)
        room = self._fit(batch, depth)
        if room is None:
            return None
        setting = GenerationSetting(round(share * room), depth, placement, batch)
        # Where everything fits, all but one layer may not: that one's slots come on top.
        return setting if planned_bytes(self._kv, self._workload, setting) <= self._space.budget_bytes else None

    def _fit(self, batch: int, depth: int) -> int | None:
        size = layer_bytes(self._kv, self._workload, batch)
        return fit_resident_layers(len(self._kv.candidates), depth, size, self._space.budget_bytes)

    def _row(self, setting: GenerationSetting) -> StreamingRow:
        if setting not in self.rows:
            times = self._engine.layer_times(setting.batch)
            self.rows[setting] = measure(self._engine, times, setting, self._workload)
            self.load_bytes_per_s[setting.batch] = times.load_bytes_per_s
        return self.rows[setting]
