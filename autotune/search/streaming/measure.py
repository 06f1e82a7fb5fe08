"""One setting: its prediction, its run, and both side by side."""

from __future__ import annotations

from autotune.core.streaming import (
    GenerationEngine,
    GenerationSetting,
    LayerTimes,
    ModelKv,
    StepPrediction,
    Workload,
    device_bytes,
    predict_step,
    streamed_layers,
)
from autotune.search.streaming.result import StreamingRow


def measure(
    engine: GenerationEngine, times: LayerTimes, setting: GenerationSetting, workload: Workload
) -> StreamingRow:
    """Predict a setting's decode step, run it, and compare.

    Args:
        engine: Runs it.
        times: Compute and link at the setting's batch, measured beforehand.
        setting: What to run.
        workload: What the engine generates.
    """
    kv = engine.describe()
    load_s = kv.layer_token_bytes * workload.longest_tokens * setting.batch / times.load_bytes_per_s
    predicted = _predict(kv, setting, times.compute_s, load_s)
    measured = engine.run(setting)
    return StreamingRow(
        setting=setting,
        planned_bytes=planned_bytes(kv, workload, setting),
        predicted=predicted,
        explained=_predict(kv, setting, measured.compute_s, load_s),
        measured=measured,
    )


def planned_bytes(kv: ModelKv, workload: Workload, setting: GenerationSetting) -> int:
    """KV that a setting keeps on the device at the longest, in the layers that can be streamed."""
    n_streamed = len(kv.candidates) - setting.n_resident
    return device_bytes(
        setting.n_resident, n_streamed, setting.prefetch_depth, layer_bytes(kv, workload, setting.batch)
    )


def layer_bytes(kv: ModelKv, workload: Workload, batch: int) -> int:
    """KV of one layer at the longest, whole batch."""
    return kv.layer_token_bytes * workload.longest_tokens * batch


def _predict(kv: ModelKv, setting: GenerationSetting, compute_s: tuple[float, ...], load_s: float) -> StepPrediction:
    streamed = streamed_layers(kv.candidates, len(kv.candidates) - setting.n_resident, setting.placement)
    loads = [load_s if layer in streamed else None for layer in range(kv.n_layers)]
    return predict_step(compute_s, loads, setting.prefetch_depth)
