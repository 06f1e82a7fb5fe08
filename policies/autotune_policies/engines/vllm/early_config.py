"""vLLM 0.24's two configurations in the shape of the one that later versions hand to a spec.

Only what the plug-in reads. Source: vLLM 0.24.0, v1/kv_offload/base.py (OffloadingSpec) and cpu/spec.py; vLLM 0.28.0,
v1/kv_offload/config.py (OffloadingConfig, from 0.26 on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EarlyGroup:
    """One KV-cache group: its number, the tokens of a block, and its window (``None`` = full attention)."""

    group_id: int
    tokens_per_block: int
    sliding_window_size_in_chunks: int | None


@dataclass(frozen=True, slots=True)
class EarlyModel:
    """The model as the engine was told."""

    name: str


@dataclass(frozen=True, slots=True)
class EarlyParallel:
    """This rank, the ranks of this engine, and the engine's number among its data-parallel replicas."""

    rank: int
    world_size: int
    data_parallel_index: int


@dataclass(frozen=True, slots=True)
class EarlyConfig:
    """What stands in ``OffloadingConfig`` later; ``worker_kv_bytes_per_block`` is of one rank, over all groups."""

    engine_id: str
    groups: tuple[EarlyGroup, ...]
    model: EarlyModel
    parallel: EarlyParallel
    worker_kv_bytes_per_block: int
    canonical_layout: bool = False


def early_config(spec: Any) -> EarlyConfig:
    """The configuration of a spec of vLLM 0.24."""
    parallel = spec.vllm_config.parallel_config
    return EarlyConfig(
        engine_id=spec.vllm_config.instance_id,
        groups=tuple(
            EarlyGroup(number, tokens, _window(group.kv_cache_spec))
            for number, (tokens, group) in enumerate(
                zip(spec.gpu_block_size, spec.kv_cache_config.kv_cache_groups, strict=True)
            )
        ),
        model=EarlyModel(spec.vllm_config.model_config.model),
        parallel=EarlyParallel(parallel.rank, parallel.world_size, parallel.data_parallel_index),
        worker_kv_bytes_per_block=spec.cpu_page_size_per_worker // spec.block_size_factor,
    )


def _window(kv_cache_spec: Any) -> int | None:
    """``None`` if the group's layers look back without a bound; of a window only its being there is needed."""
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    return None if isinstance(kv_cache_spec, FullAttentionSpec) else 1
