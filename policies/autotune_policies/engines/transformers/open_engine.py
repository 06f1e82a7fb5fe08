"""The entry point of searches: importable without an engine, and says so where there is none."""

from __future__ import annotations

from autotune.core.errors import MissingExtraError
from autotune.core.streaming import GenerationEngine, Workload
from autotune_policies.engines.transformers.versions import require_supported


def open_engine(
    model: str, workload: Workload, *, dtype: str | None = None, simulated_link_bytes_per_s: float | None = None
) -> GenerationEngine:
    """An engine that generates with a model under changing settings.

    Args:
        model: Folder of a model, or path of a ``config.json`` for one with random weights, which takes as long.
        workload: What is generated.
        dtype: Element type of weights and KV, such as ``bfloat16``; None = the configuration's.
        simulated_link_bytes_per_s: Pace of a simulated link, where there is no device.

    Raises:
        StreamingError: Transformers is missing or not supported, or the model cannot be opened.
        MissingExtraError: torch is not installed.
    """
    require_supported()
    try:
        from autotune_policies.engines.transformers.trials import TransformersEngine
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(
            "generating with Transformers needs torch", got="it is not installed", remedy="pip install torch"
        ) from error
    return TransformersEngine(model, workload, dtype, simulated_link_bytes_per_s)
