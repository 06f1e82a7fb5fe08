"""An engine whose steps take exactly as long as the recurrence says, so that the search alone is tested."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from autotune.core.streaming import (
    GenerationSetting,
    LayerTimes,
    MeasuredGeneration,
    ModelKv,
    NotRun,
    Workload,
    generation_volume,
    predict_step,
    streamed_layers,
)
from autotune.search.streaming.measure import layer_bytes, planned_bytes

N_LAYERS = 8
TOKEN_BYTES = 1000
COMPUTE_S = 1e-3
PACE = 8e8


@dataclass
class ExactEngine:
    """Eight layers of a millisecond; a second sequence adds a tenth to each."""

    workload: Workload
    ran: list[GenerationSetting] = field(default_factory=list)
    native_step_s: float | None = None
    drift: float = 1.0

    def describe(self) -> ModelKv:
        """All layers can be streamed."""
        layers = tuple(range(N_LAYERS))
        return ModelKv("/models/exact", layers, N_LAYERS, TOKEN_BYTES, "float32", "cpu", (("torch", "2"),))

    def layer_times(self, batch: int) -> LayerTimes:
        """The truth."""
        return LayerTimes((COMPUTE_S * (1 + 0.1 * (batch - 1)),) * N_LAYERS, PACE)

    def run(self, setting: GenerationSetting) -> MeasuredGeneration:
        """What the recurrence says, times a drift."""
        self.ran.append(setting)
        kv, compute_s = self.describe(), self.layer_times(setting.batch).compute_s
        streamed = streamed_layers(kv.candidates, N_LAYERS - setting.n_resident, setting.placement)
        load_s = layer_bytes(kv, self.workload, setting.batch) / PACE
        step = predict_step(
            compute_s, [load_s if i in streamed else None for i in range(N_LAYERS)], setting.prefetch_depth
        )
        volume = generation_volume(
            len(streamed),
            TOKEN_BYTES,
            setting.batch,
            self.workload.prompt_tokens,
            self.workload.new_tokens,
            setting.prefetch_depth,
        )
        return MeasuredGeneration(
            prefill_s=0.1,
            step_s=self.drift * step.step_s,
            wait_s=step.wait_s,
            compute_s=compute_s,
            loaded_bytes=volume.loaded_bytes + volume.ahead_bytes,
            stored_bytes=volume.stored_bytes,
            peak_slots=setting.prefetch_depth + 1,
            device_bytes=planned_bytes(kv, self.workload, setting),
        )

    def run_native_offload(self, batch: int) -> float | NotRun:
        """As set, or a refusal."""
        return NotRun("it does not run here") if self.native_step_s is None else self.native_step_s * batch

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def engine() -> ExactEngine:
    """With a prompt of 1000 tokens."""
    return ExactEngine(Workload(prompt_tokens=990, new_tokens=10))
