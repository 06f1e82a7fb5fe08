"""Policy document → the one argument of vLLM, ``--kv-transfer-config``.

A disk tier needs a folder (``--disk-dir``); with it the tiering spec takes the place of the plain one.

Source: vLLM 0.32.0, ``config/kv_transfer.py`` (KVTransferConfig), ``v1/kv_offload/cpu/spec.py`` (cpu_bytes_to_use,
eviction_policy, store_threshold), ``v1/kv_offload/tiering/spec.py`` (secondary_tiers),
``distributed/kv_transfer/kv_connector/v1/offloading/config.py`` (blocks_per_chunk, block_size).
"""

from __future__ import annotations

import json
from dataclasses import replace

from autotune.core.errors import ConfigError
from autotune.core.policy import StoredTier
from autotune.core.types import Admission
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings
from autotune.export.shared import check_host_is_larger, confirmed, host_of
from autotune.export.vllm_notes import notes

ENGINE = "vllm"
OPTION = "--kv-transfer-config"
CONNECTOR = "OffloadingConnector"
STORES_EAGERLY = "vLLM stores what it computes at once"
TWO_HIT_THRESHOLD = 2  # vLLM's filter is active from 2: a chunk is stored when it is offered for the second time


def render(request: ExportRequest) -> Export:
    """The argument with which ``vllm serve`` obeys a policy.

    Raises:
        ConfigError: the policy has no host tier, is a trial, is for other engines, has chunks that the engine's
            blocks do not fill, or asks the stock engine for what it refuses or what would be of no use there.
    """
    flavor = request.flavor or Flavor.PLUGIN
    request = replace(request, flavor=flavor)
    host = _exportable_host(request)
    settings: Settings = {"cpu_bytes_to_use": request.document.budgets.host_bytes}
    settings |= _chunk_settings(host, request.block_tokens)
    settings |= _disk_settings(request)
    config = _plugin(request, settings) if flavor is Flavor.PLUGIN else _stock(request, host, settings)
    return Export(
        engine=ENGINE,
        flavor=flavor,
        option=OPTION,
        settings=config,
        text=json.dumps(config, ensure_ascii=True),
        notes=notes(request, host),
    )


def _plugin(request: ExportRequest, settings: Settings) -> Settings:
    """Module paths are given, so that it works whether or not the entry point of our package is loaded."""
    spec = "AutotuneTieringOffloadingSpec" if "secondary_tiers" in settings else "AutotuneOffloadingSpec"
    return {
        "kv_connector": "AutotuneConnector",
        "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": spec,
            "spec_module_path": "autotune_policies.engines.vllm.spec",
            **settings,
            "policy_file": str(request.policy_path),
        },
    }


def _stock(request: ExportRequest, host: StoredTier, settings: Settings) -> Settings:
    check_host_is_larger(request.document, STORES_EAGERLY, "use --flavor plugin with store mode 'lazy'")
    threshold: Settings = {"store_threshold": TWO_HIT_THRESHOLD} if host.admission is Admission.TWO_HIT else {}
    if "secondary_tiers" in settings:
        settings = {"spec_name": "TieringOffloadingSpec", **settings}
    extra: Settings = {**settings, "eviction_policy": "lru", **threshold}
    return check({"kv_connector": CONNECTOR, "kv_role": "kv_both", "kv_connector_extra_config": extra})


def check(config: Settings) -> Settings:
    """The argument for the stock engine, if vLLM would do what it says.

    Raises:
        ConfigError: it names a connector that vLLM does not have, has a key or a value that vLLM ignores, or a
            threshold beside tiers below the host.
    """
    extra = config.get("kv_connector_extra_config") or {}
    if not isinstance(extra, dict):
        raise ConfigError("kv_connector_extra_config is an object", got=repr(extra), remedy="give names and values")
    if config.get("kv_connector") != CONNECTOR:
        raise ConfigError(
            "kv_connector must be the one for host memory", got=config.get("kv_connector"), remedy=CONNECTOR
        )
    table("vllm").check(extra)
    threshold = extra.get("store_threshold")
    if isinstance(threshold, int) and threshold >= TWO_HIT_THRESHOLD and "secondary_tiers" in extra:
        raise ConfigError(
            "vLLM has no threshold for storing where there is a disk tier",
            got=f"store_threshold {threshold} (admission 'two_hit' on the host), and a disk tier",
            remedy="use admission 'all', leave --disk-dir away, or use --flavor plugin, which admits by itself",
        )
    return config


def _disk_settings(request: ExportRequest) -> Settings:
    if request.document.tiers.disk is None or request.disk_dir is None:
        return {}
    return {"secondary_tiers": [{"type": "fs", "root_dir": str(request.disk_dir)}]}


def _chunk_settings(host: StoredTier, block_tokens: int | None) -> Settings:
    """Blocks per chunk where the engine's blocks are known, else tokens per chunk, which vLLM divides at its start."""
    if host.chunk_tokens == 0:
        return {}
    if block_tokens is None:
        return {"block_size": host.chunk_tokens}
    blocks, rest = divmod(host.chunk_tokens, block_tokens)
    if blocks < 1 or rest:
        raise ConfigError(
            f"tiers.host.chunk_tokens must be a multiple of the engine's block of {block_tokens:,} tokens",
            got=f"{host.chunk_tokens:,}",
            remedy="change chunk_tokens in the policy, or give the --block-size that the engine is started with",
        )
    return {"blocks_per_chunk": blocks}


def _exportable_host(request: ExportRequest) -> StoredTier:
    """The policy's host tier.

    Raises:
        ConfigError: there is none, or the policy is not one that a vLLM engine can be started with.
    """
    document = confirmed(request.document)
    engines = document.fingerprint.engines
    if engines and not any(entry.startswith(ENGINE) and not entry[len(ENGINE) :][:1].isalpha() for entry in engines):
        raise ConfigError(
            "fingerprint.engines must allow vllm",
            got=", ".join(engines),
            remedy="export for one of those engines, or tune on a trace of a vLLM server",
        )
    return host_of(document, "vLLM")
