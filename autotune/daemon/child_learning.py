"""The learned rule as a candidate: the online loop over the recorded past, and what it has in force at its end."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.errors import AutotuneError
from autotune.core.policy import PolicyDocument
from autotune.core.settings import ValidationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import Arm, EngineSemantics, StoreMode
from autotune.daemon.jobs import TuneJob
from autotune.online.from_settings import online_settings
from autotune.online.simulate import simulate_online
from autotune.search.learned_document import Origin, document_in_force, promised
from autotune.search.online_run import why_lru
from autotune.search.write_budget import copy_factor_of, write_budget
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig


def learn(job: TuneJob, trace: Trace, newest: int, engine: CacheConfig, model: ModelShape) -> PolicyDocument | str:
    """What the loop has in force at the end of the past, with a promise for the newest requests; or why nothing.

    The loop starts in LRU, fits as it goes, and obeys what it learned where its guard lets it; so it ends with LRU or
    with a learned rule.

    Args:
        job: What was asked.
        trace: The recorded requests.
        newest: First request that judges; the loop sees none from there on.
        engine: The engine under LRU.
        model: The model, for the fingerprint.
    """
    if not job.learned:
        return "it is switched off (sidecar.retune.learned)"
    if job.unfit is not None:
        return job.unfit
    try:
        return _learned(job, trace, newest, engine, model)
    except AutotuneError as problem:
        return str(problem)
    except MemoryError:
        return f"it needs more memory than the cap of {job.max_bytes // 2**20} MiB"


def _learned(job: TuneJob, trace: Trace, newest: int, engine: CacheConfig, model: ModelShape) -> PolicyDocument | str:
    costs, seed, section = job.costs.profile(), job.seed, job.online
    canonical = replace(engine, semantics=EngineSemantics.CANONICAL, store_mode=_stores(section.store_mode, engine))
    # Each request leaves a row at least, so of older ones no fit would know anything: they would only take time.
    past = trace.slice(max(0, newest - section.window_rows), newest)
    result = simulate_online(past, canonical, costs, online_settings(section, seed), hints_of(past))
    if result.arm is Arm.LRU:
        return why_lru(result)
    origin = Origin(past, canonical, costs, model, seed, trials=len(result.fits), write=write_budget(section))
    document = document_in_force(result, origin, copy_factor_of(section))
    whole = replace(origin, trace=trace)
    from_s = float(trace.arrival_s[newest] - trace.arrival_s[0])
    found = promised(document, whole, from_s, ValidationSettings(confidence=job.confidence))
    fingerprint = found.fingerprint.model_copy(update={"engines": job.engines})
    return found.model_copy(update={"fingerprint": fingerprint})


def _stores(wanted: StoreMode, engine: CacheConfig) -> StoreMode:
    """When the engine would store: in vLLM a loaded block stays on the host."""
    is_vllm = engine.semantics is EngineSemantics.VLLM_0_32
    return StoreMode.LAZY if is_vllm and wanted is StoreMode.EXCLUSIVE else wanted
