"""Policy document → vLLM-Ascend: ``--kv-transfer-config`` with the connector that its release registers.

Source: vLLM-Ascend 0.23.0.post1, ``vllm_ascend/distributed/kv_transfer/__init__.py`` (names), ``kv_pool/
simple_cpu_offload`` and ``kv_pool/recompute_cpu_offload`` (the latter keeps preempted requests on decode nodes only);
vLLM 0.23, ``simple_cpu_offload_connector.py`` (keys; bytes are divided by the number of ranks).
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

ENGINE = "vLLM-Ascend"
VERSIONS = "0.23.0.post1"
CONNECTOR = "SimpleCPUOffloadConnector"
# OffloadingConnector is registered by vLLM itself, but this release has no spec for NPUs that loads.
CONNECTORS = (
    CONNECTOR,
    "AscendStoreConnector",
    "LMCacheAscendConnector",
    "MooncakeConnectorStoreV1",
    "MooncakeConnectorV1",
    "MooncakeHybridConnector",
    "MooncakeLayerwiseConnector",
    "MultiConnector",
    "RecomputeCPUOffloadConnector",
    "UCMConnector",
)


def render(request: ExportRequest) -> Export:
    """The argument with which ``vllm serve`` on NPUs gets a host tier.

    Raises:
        ConfigError: the policy has no host tier, or one that would only mirror the device, is a trial, or has chunks;
            or our plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    host = shared.host_of(document, ENGINE)
    lazy = host.store_mode is not StoreMode.EAGER
    if not lazy:
        shared.check_host_is_larger(document, "in mode 'eager' blocks are stored at once", "use store mode 'lazy'")
    if host.chunk_tokens:
        raise ConfigError(
            f"{CONNECTOR} stores block by block",
            got=f"tiers.host.chunk_tokens {host.chunk_tokens:,}",
            remedy="set it to 0",
        )
    extra: Settings = {"cpu_bytes_to_use": document.budgets.host_bytes, "lazy_offload": lazy}
    config: Settings = {"kv_connector": CONNECTOR, "kv_role": "kv_both", "kv_connector_extra_config": dict(extra)}
    check(config)
    share = shared.per_rank(document.budgets.host_bytes, request.ranks, "the host tier")
    return Export(
        engine="vllm-ascend",
        flavor=Flavor.STOCK,
        option="--kv-transfer-config",
        settings=config,
        text=json.dumps(config),
        notes=(
            *_left_out(request, host),
            f"cpu_bytes_to_use is the total over the ranks of one engine: {shared.gib(document.budgets.host_bytes)}, "
            f"{shared.gib(share)} for each of {request.ranks:,}; cpu_bytes_to_use_per_rank would say the share itself",
            f"the device budget of {document.budgets.device_bytes:,} bytes (over all ranks) is no part of it; NPU "
            "memory is shared out by --gpu-memory-utilization",
            shared.restart(),
            shared.for_version(document, ENGINE, VERSIONS),
            "needs CANN 9.1.0 and prefix caching switched on; host memory is pinned, so give a container enough shared "
            "memory (--shm-size)",
            "NPUOffloadingSpec, which this release documents, is not used: it imports a module that vLLM no longer has",
            "leave --kv-offloading-size away: it would overwrite the connector and the size given here",
        ),
    )


def check(config: Settings) -> Settings:
    """The argument, if this release would do what it says; names are read late there, and unknown keys never.

    Raises:
        ConfigError: it would not.
    """
    extra = config.get("kv_connector_extra_config") or {}
    if not isinstance(extra, dict):
        raise ConfigError("kv_connector_extra_config is an object", got=repr(extra), remedy="give names and values")
    name = config.get("kv_connector")
    if name in (CONNECTOR, "OffloadingConnector"):
        table("vllm-ascend").check(extra)
    if name not in CONNECTORS:
        raise ConfigError(
            f"kv_connector must be one that {ENGINE} {VERSIONS} can use", got=name, remedy=f"use {CONNECTOR}"
        )
    return config


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT:
        yield "not expressed: admission 'two_hit' on the host; every block is stored"
    if host.store_mode is StoreMode.EXCLUSIVE:
        yield "not expressed: store mode 'exclusive'; blocks are stored lazily, and the host keeps what it gives back"
    if host.min_load_tokens:
        yield f"not expressed: the shortest load of {host.min_load_tokens:,} tokens; whatever the host has is loaded"
    if document.tiers.disk is not None:
        yield f"not expressed: the disk tier of {shared.gib(document.budgets.disk_bytes)}"
    yield from shared.no_extras(document, ENGINE)
