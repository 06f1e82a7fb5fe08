"""The engine's own scheduler for tests: tiny sizes, no model, no worker."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class HarnessConfig:
    """Sizes of the tiny engine. ``connector`` and ``extra`` are what a user writes in ``--kv-transfer-config``."""

    device_blocks: int = 12
    host_chunks: int = 12
    block_tokens: int = 4
    blocks_per_chunk: int = 1
    max_model_tokens: int = 40
    max_batched_tokens: int = 24
    max_requests: int = 4
    window_tokens: int | None = None
    connector: str = "OffloadingConnector"
    connector_module: str | None = None
    extra: tuple[tuple[str, Any], ...] = ()


@cache
def _model_folder() -> str:
    """A folder with the configuration of a one-layer Llama; no weights are ever loaded."""
    folder = Path(tempfile.mkdtemp(prefix="harness-model-"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "vocab_size": 128,
        "max_position_embeddings": 4096,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@cache
def _vllm_config(config: HarnessConfig) -> Any:
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        KVTransferConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        VllmConfig,
    )

    extra = dict(config.extra)
    extra.setdefault("cpu_bytes_to_use", config.host_chunks * _chunk_bytes(config))
    if find_spec("vllm.v1.kv_offload.config") is not None:
        extra.setdefault("blocks_per_chunk", config.blocks_per_chunk)
    else:  # up to vLLM 0.25
        extra.setdefault("block_size", config.blocks_per_chunk * config.block_tokens)
    vllm_config = VllmConfig(
        model_config=ModelConfig(
            model=_model_folder(), skip_tokenizer_init=True, dtype="float32", max_model_len=config.max_model_tokens
        ),
        cache_config=CacheConfig(block_size=config.block_tokens, enable_prefix_caching=True),
        scheduler_config=SchedulerConfig(
            max_num_seqs=config.max_requests,
            max_num_batched_tokens=config.max_batched_tokens,
            max_model_len=config.max_model_tokens,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
            async_scheduling=False,
        ),
        parallel_config=ParallelConfig(),
        device_config=DeviceConfig("cpu"),
        kv_transfer_config=KVTransferConfig(
            kv_connector=config.connector,
            kv_connector_module_path=config.connector_module,
            kv_role="kv_both",
            kv_connector_extra_config=extra,
        ),
    )
    vllm_config.cache_config.block_size = config.block_tokens
    vllm_config.cache_config.num_gpu_blocks = config.device_blocks
    return vllm_config


def _chunk_bytes(config: HarnessConfig) -> int:
    del config
    return 4096


def _kv_cache_config(config: HarnessConfig) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec

    sizes = {"block_size": config.block_tokens, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    groups = [KVCacheGroupSpec(["layer.0"], FullAttentionSpec(**sizes))]
    if config.window_tokens is not None:
        groups.append(KVCacheGroupSpec(["layer.1"], SlidingWindowSpec(**sizes, sliding_window=config.window_tokens)))
    return KVCacheConfig(
        num_blocks=config.device_blocks, kv_cache_tensors=_kv_cache_tensors(config), kv_cache_groups=groups
    )


def _kv_cache_tensors(config: HarnessConfig) -> list[Any]:
    """Up to 0.30 vLLM takes the size of a chunk from them; later versions do without."""
    from vllm.v1.kv_cache_interface import KVCacheTensor

    if "shared_by" not in inspect.signature(KVCacheTensor).parameters:
        return []
    block_bytes = _chunk_bytes(config) // config.blocks_per_chunk
    return [KVCacheTensor(size=block_bytes * config.device_blocks, shared_by=["layer.0"])]


def new_scheduler(config: HarnessConfig) -> Any:
    """A scheduler of these sizes with its connector."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager

    vllm_config = _vllm_config(config)
    return Scheduler(
        vllm_config=vllm_config,
        kv_cache_config=_kv_cache_config(config),
        log_stats=True,
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=config.block_tokens,
        hash_block_size=config.block_tokens,
    )


@cache
def _block_hasher(block_tokens: int) -> Any:
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    init_none_hash(sha256)
    return get_request_block_hasher(block_tokens, sha256)


def new_request(
    config: HarnessConfig, request_id: str, tokens: list[int], max_tokens: int, attributes: Mapping[str, Any]
) -> Any:
    """A request as the engine core makes it from what a client sent."""
    from vllm import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(ignore_eos=True, max_tokens=max_tokens)
    transfer_params = attributes.get("kv_transfer_params")
    if transfer_params is not None:
        params.extra_args = {"kv_transfer_params": dict(transfer_params)}
    params.update_from_generation_config({}, 127)
    rest = {name: value for name, value in attributes.items() if name != "kv_transfer_params"}
    return Request(
        request_id=request_id,
        prompt_token_ids=tokens,
        sampling_params=params,
        pooling_params=None,
        block_hasher=_block_hasher(config.block_tokens),
        **rest,
    )
