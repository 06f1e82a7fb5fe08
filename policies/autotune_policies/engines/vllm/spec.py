"""What ``spec_name`` in vLLM's configuration points to: the host pool, its manager and its copies.

Two classes, each vLLM's own with ours in front: ``AutotuneOffloadingSpec`` (host) and ``AutotuneTieringOffloadingSpec``
(host, and slower tiers behind it). On CUDA and XPU the copies are made by the engine's own worker, untouched.

Tiering keeps the pool in ``/dev/shm/vllm_offload_*.mmap``. The file goes when the engine shuts down; after SIGKILL it
stays, nothing uses it any more (each start of an engine takes a new name), and it can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from vllm.platforms import current_platform
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from autotune.core.errors import ConfigError
from autotune_policies.engines.live.settings import WHERE, EngineSettings
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.facts import pool_facts
from autotune_policies.engines.vllm.metrics import metric_metadata
from autotune_policies.engines.vllm.seams import Feature


class _AutotuneSpec:
    """What both specs add to vLLM's; stands before it in the order of bases."""

    extra_config: Any
    _MANAGER_FEATURE: ClassVar = Feature.MANAGER
    _manager: Any
    _worker: Any
    _build_manager: Callable[[], Any]

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """The series of vLLM and ours."""
        stock: dict[str, Any] = super().build_metric_definitions(extra_config)  # type: ignore[misc]
        return stock | metric_metadata() if compat.is_usable(Feature.METRICS) else stock

    # vLLM 0.24 gives two configurations, later versions one; the base classes know which.
    def __init__(self, *configs: Any, **named: Any) -> None:
        super().__init__(*configs, **named)
        self.settings = EngineSettings.from_extra_config(self.extra_config)
        _check_room(self)

    def get_manager(self) -> Any:
        """The manager, in the scheduler's process."""
        if not compat.is_usable(self._MANAGER_FEATURE):
            return super().get_manager()  # type: ignore[misc]
        if self._manager is None:
            self._manager = self._build_manager()
        return self._manager

    def get_worker(self, kv_caches: Any) -> Any:
        """What makes the copies, in a worker's process."""
        if not current_platform.is_cpu() or not compat.is_usable(Feature.WORKER):
            return super().get_worker(kv_caches)  # type: ignore[misc]
        if self._worker is None:
            self._worker = _cpu_worker(self, kv_caches)
        return self._worker


class AutotuneOffloadingSpec(_AutotuneSpec, CPUOffloadingSpec):
    """Host memory as the tier behind the device."""

    def _build_manager(self) -> Any:
        from autotune_policies.engines.vllm.manager import AutotuneOffloadingManager

        settings = self.settings.for_rank(pool_facts(self).data_parallel_rank)
        return AutotuneOffloadingManager(facts=pool_facts(self), settings=settings, **compat.manager_arguments(self))


class AutotuneTieringOffloadingSpec(_AutotuneSpec, TieringOffloadingSpec):
    """Host memory, and behind it the tiers of ``secondary_tiers``."""

    _MANAGER_FEATURE: ClassVar = Feature.TIERING

    def _build_manager(self) -> Any:
        from autotune_policies.engines.vllm.tiering import tiering_manager

        return tiering_manager(self)


def _check_room(spec: Any) -> None:
    chunk_bytes = compat.chunk_bytes(spec)  # 0 where the engine does not tell
    if chunk_bytes and compat.pool_chunks(spec) < 1:
        raise ConfigError(
            f"{WHERE}.cpu_bytes_to_use must hold at least one chunk over all ranks, which is {chunk_bytes} bytes",
            got=spec.extra_config["cpu_bytes_to_use"],
            remedy="give more bytes, or take fewer blocks_per_chunk",
        )


def _cpu_worker(spec: Any, kv_caches: Any) -> Any:
    """The worker for the CPU platform, on a private pool or, for tiering, on this rank's part of the shared one."""
    # Imported here: vLLM before 0.25 has its base class elsewhere, and no worker for the CPU platform is offered there.
    from autotune_policies.engines.vllm.worker import SimulatedLink, TorchCopyWorker

    settings: EngineSettings = spec.settings
    link = SimulatedLink(settings.simulated_link_bytes_per_s or float("inf"), settings.simulated_link_latency_s)
    region = _region(spec) if spec._uses_shared_region() else None
    try:
        return TorchCopyWorker(kv_caches, spec.blocks_per_chunk, compat.pool_chunks(spec), region, link)
    except Exception:
        if region is not None:
            region.cleanup()
        raise


def _region(spec: Any) -> Any:
    """The shared memory of all ranks, as vLLM's own worker opens it.

    Source: vLLM 0.32, v1/kv_offload/tiering/spec.py (create_worker).
    """
    from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion

    if spec.config.canonical_layout:
        raise ConfigError(
            f"{WHERE}.canonical_layout is not for the CPU platform", got="true", remedy="leave canonical_layout out"
        )
    rank = 0 if spec.replicated_layout else spec.config.parallel.rank
    # By position: the second and fourth were num_blocks and kv_bytes_per_block before 0.30.
    return SharedOffloadRegion(
        spec.config.engine_id, compat.pool_chunks(spec), rank, spec.kv_bytes_per_chunk, spec.cpu_page_size_per_worker
    )
