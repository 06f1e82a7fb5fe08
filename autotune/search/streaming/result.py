"""What a search over streaming settings tried and found."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from autotune.core.streaming import GenerationSetting, MeasuredGeneration, ModelKv, NotRun, StepPrediction, Workload


@dataclass(frozen=True, slots=True)
class StreamingSpace:
    """Where to search.

    Attributes:
        budget_bytes: KV on the device, slots included.
        max_depth: The largest prefetch depth tried.
        max_batch: The largest batch tried; batches are powers of 2.
    """

    budget_bytes: int
    max_depth: int = 4
    max_batch: int = 4

    @property
    def batches(self) -> tuple[int, ...]:
        """Batches that may be tried, ascending."""
        return tuple(2**power for power in range(self.max_batch.bit_length()) if 2**power <= self.max_batch)


@dataclass(frozen=True, slots=True)
class StreamingRow:
    """One setting: predicted, then run.

    Attributes:
        setting: What was run.
        planned_bytes: KV that it keeps on the device at the longest.
        predicted: Its step by the recurrence, from times measured right before.
        explained: Its step by the recurrence, from the layers' compute in this very run: what is left is the
            recurrence's own error, without the drift of the machine.
        measured: What was measured.
    """

    setting: GenerationSetting
    planned_bytes: int
    predicted: StepPrediction
    explained: StepPrediction
    measured: MeasuredGeneration

    @property
    def token_s(self) -> float:
        """Seconds per token over the batch: what is minimised."""
        return self.measured.step_s / self.setting.batch

    @property
    def error_frac(self) -> float:
        """Predicted over measured step, less 1."""
        return self.predicted.step_s / self.measured.step_s - 1.0

    @property
    def explained_error_frac(self) -> float:
        """The same for the explained step."""
        return self.explained.step_s / self.measured.step_s - 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The chosen setting against a fixed one, measured in turns within the same budget.

    Attributes:
        name: Of the other.
        setting: The other; None for an engine's own cache.
        token_s: Seconds per token of the other, the median of the turns; None where it does not run.
        chosen_token_s: Of the chosen one.
        note: Why it does not run; else empty.
    """

    name: str
    setting: GenerationSetting | None
    token_s: float | None
    chosen_token_s: float
    note: str = ""

    @property
    def speed_up(self) -> float | None:
        """How many times as fast the chosen one is."""
        return None if self.token_s is None else self.token_s / self.chosen_token_s


@dataclass(frozen=True, slots=True)
class StreamingResult:
    """The outcome.

    Attributes:
        model: What the model keeps.
        workload: What was generated.
        space: Where was searched.
        load_bytes_per_s: Pace of the link.
        link_is_simulated: Whether that pace was given and not measured.
        rows: Settings tried, in order, each once.
        chosen: The best of them, after it was compared with the fixed settings.
        comparisons: With p = 0, d = 1 and with the engine's own offloaded cache.
        unfit: Settings drawn that the budget does not hold; they were not run.
        seed: Of the search.
    """

    model: ModelKv
    workload: Workload
    space: StreamingSpace
    load_bytes_per_s: float
    link_is_simulated: bool
    rows: tuple[StreamingRow, ...]
    chosen: StreamingRow
    comparisons: tuple[Comparison, ...]
    unfit: int
    seed: int

    @property
    def resident_frac(self) -> float:
        """P of the chosen setting, rounded up at the sixth digit, so that it means as many layers."""
        n_layers = len(self.model.candidates)
        return -(-self.chosen.setting.n_resident * 10**6 // n_layers) / 10**6

    @property
    def median_error_frac(self) -> float:
        """Median size of the prediction's error."""
        return median(abs(row.error_frac) for row in self.rows)

    @property
    def median_explained_error_frac(self) -> float:
        """Median size of the recurrence's own error."""
        return median(abs(row.explained_error_frac) for row in self.rows)


def not_run(name: str, reason: NotRun, chosen_token_s: float) -> Comparison:
    """A comparison that could not be made."""
    return Comparison(name, None, None, chosen_token_s, reason.reason)
