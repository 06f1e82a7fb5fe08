"""Streaming the KV of running requests layer by layer: which layers, in which bytes, and how long a step takes.

A share p of the layers keeps its KV on the device. The others have it on the host, and it is loaded before their
attention runs and dropped after it; d says how many streamed layers ahead the loads may run. All of it is arithmetic:
the cache that does it lives with the engine it belongs to.
"""

from __future__ import annotations

from autotune.core.streaming.generation import (
    GenerationEngine,
    GenerationSetting,
    LayerTimes,
    MeasuredGeneration,
    ModelKv,
    NotRun,
    Workload,
)
from autotune.core.streaming.placement import Placement, resident_count, streamed_layers
from autotune.core.streaming.recurrence import StepPrediction, overlap_frac, predict_step
from autotune.core.streaming.volume import GenerationVolume, device_bytes, fit_resident_layers, generation_volume

__all__ = [
    "GenerationEngine",
    "GenerationSetting",
    "GenerationVolume",
    "LayerTimes",
    "MeasuredGeneration",
    "ModelKv",
    "NotRun",
    "Placement",
    "StepPrediction",
    "Workload",
    "device_bytes",
    "fit_resident_layers",
    "generation_volume",
    "overlap_frac",
    "predict_step",
    "resident_count",
    "streamed_layers",
]
