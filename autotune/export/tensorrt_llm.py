"""Policy document → TensorRT-LLM: the section ``kv_cache_config`` of its options file.

Source: TensorRT-LLM 1.2, ``tensorrt_llm/llmapi/llm_args.py`` (KvCacheConfig: host_cache_size in bytes,
max_gpu_total_bytes, secondary_offload_min_priority) and its guide to the KV cache (blocks have priority 35 unless a
request says otherwise; blocks are stored when the device evicts them, so a small host tier mirrors nothing).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import StoredTier
from autotune.core.types import Admission, StoreMode
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "TensorRT-LLM"
VERSIONS = "1.2 (newer versions add a disk tier and cold_tier_offload_min_priority)"
DEFAULT_PRIORITY = 35
LOWEST_OFFLOADED = 30  # a request that says less is not worth a copy on the host
RETENTION = f"""\
# Per request, in Python: a prefix that is kept longer than others ({DEFAULT_PRIORITY} is usual, 100 the highest).
#   from datetime import timedelta
#   from tensorrt_llm.llmapi import KvCacheRetentionConfig
#   retention = KvCacheRetentionConfig(
#       [KvCacheRetentionConfig.TokenRangeRetentionConfig(0, 1024, 80, timedelta(minutes=10))], {DEFAULT_PRIORITY}
#   )
#   llm.generate(prompt, kv_cache_retention_config=retention)"""


def render(request: ExportRequest) -> Export:
    """The YAML for ``trtllm-serve --extra_llm_api_options``.

    Raises:
        ConfigError: the policy has no host tier, is a trial, or has chunks that the engine's blocks do not fill; or our
            plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    host = shared.host_of(document, ENGINE)
    shared.check_divides(host.chunk_tokens, request.block_tokens, "tiers.host.chunk_tokens", "change one of the two")
    block_tokens = host.chunk_tokens or request.block_tokens
    settings: Settings = {
        "enable_block_reuse": True,
        "max_gpu_total_bytes": shared.per_rank(document.budgets.device_bytes, request.ranks, "the device tier"),
        "host_cache_size": shared.per_rank(document.budgets.host_bytes, request.ranks, "the host tier"),
        **({"tokens_per_block": block_tokens} if block_tokens else {}),
        **({"secondary_offload_min_priority": LOWEST_OFFLOADED} if _uses_priority(request) else {}),
    }
    check(settings)
    lines = [f"  {name}: {json.dumps(value)}" for name, value in settings.items()]
    return Export(
        engine="tensorrt-llm",
        flavor=Flavor.STOCK,
        option="trtllm-serve --extra_llm_api_options",
        settings={"kv_cache_config": settings},
        text="\n".join(["kv_cache_config:", *lines, RETENTION]),
        notes=(*_left_out(request, host), *_notes(request)),
    )


def check(settings: Settings) -> Settings:
    """The section ``kv_cache_config``, if it says what it seems to say.

    Raises:
        ConfigError: a name or a value is wrong, or a setting would have no effect.
    """
    table("tensorrt-llm").check(settings)
    host = settings.get("host_cache_size")
    if host and settings.get("enable_block_reuse") is False:
        raise ConfigError(
            "host_cache_size needs enable_block_reuse: only blocks that may be reused are kept on the host",
            got="enable_block_reuse false",
            remedy="set it to true",
        )
    if host and settings.get("max_tokens"):
        raise ConfigError(
            "max_tokens limits the host tier too",
            got="max_tokens beside host_cache_size",
            remedy="limit the device by max_gpu_total_bytes",
        )
    tokens = settings.get("tokens_per_block", 32)
    if not isinstance(tokens, int) or tokens < 2 or tokens & (tokens - 1):
        raise ConfigError("tokens_per_block must be a power of two above 1", got=tokens, remedy="use 32 or 64")
    if host and settings.get("enable_partial_reuse") is False and settings.get("dtype") == "fp8":
        raise ConfigError(
            "an fp8 cache with a host tier and without partial reuse gave wrong tokens in 1.2 release candidates "
            "(NVIDIA/TensorRT-LLM issue 8813)",
            got=f"dtype fp8, host_cache_size {host:,}, enable_partial_reuse false",
            remedy="leave enable_partial_reuse at its default and compare outputs with host_cache_size 0",
        )
    return settings


def _uses_priority(request: ExportRequest) -> bool:
    return request.document.hints is not None and request.document.hints.use_priority


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT:
        yield "not expressed: admission 'two_hit' on the host; every block that leaves the device is stored"
    if host.store_mode is StoreMode.EAGER:
        yield "not expressed: store mode 'eager'; blocks are stored when the device evicts them"
    if host.min_load_tokens:
        yield f"not expressed: the shortest load of {host.min_load_tokens:,} tokens; whatever the host has is loaded"
    if document.tiers.disk is not None:
        yield f"not expressed: the disk tier of {shared.gib(document.budgets.disk_bytes)}; 1.2 has none"
    if document.fingerprint.adapter_rule != "any":
        yield f"not expressed: adapter rule '{document.fingerprint.adapter_rule}'"
    if document.streaming is not None:
        yield "not expressed: streaming of running requests; TensorRT-LLM keeps their KV on the device"
    if document.hints is not None and document.hints.use_session:
        yield "not expressed: session hints of clients"


def _notes(request: ExportRequest) -> Iterator[str]:
    budgets = request.document.budgets
    yield (
        f"host_cache_size and max_gpu_total_bytes are bytes per rank: {shared.gib(budgets.host_bytes)} and "
        f"{shared.gib(budgets.device_bytes)} in all, over {request.ranks:,}; host memory is pinned at the start"
    )
    yield "free_gpu_memory_fraction (0.9) still holds: the smaller of it and max_gpu_total_bytes counts"
    if _uses_priority(request):
        yield f"blocks of requests with a priority of {LOWEST_OFFLOADED} or less are not stored on the host"
    yield "live: priorities and durations of each request (the example in the file)"
    yield shared.restart("every value of kv_cache_config")
    yield shared.for_version(request.document, ENGINE, VERSIONS)
    yield "compare outputs with and without host_cache_size after an upgrade: candidates of 1.2 mixed prompts up"
