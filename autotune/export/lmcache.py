"""Policy document → LMCache: the YAML file of its engine process, and the flags of its server.

Source: LMCache 0.5.6, ``v1/config.py`` (keys), ``v1/storage_backend/local_cpu_backend.py`` and
``v1/storage_backend/local_disk_backend.py`` (sizes are GiB per rank; no disk without ``local_disk``),
``v1/distributed/config.py`` (flags; ``--l1-size-gb`` counts GiB), ``integration/vllm/vllm_multi_process_adapter.py`` (a
chunk is whole blocks).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument, StoredTier
from autotune.core.types import Admission
from autotune.core.units import GIB
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "LMCache"
VERSIONS = "0.5 (0.5.6 was tried)"
DEFAULT_CHUNK_TOKENS = 256
CONNECTOR = "LMCacheConnectorV1"
MP_CONNECTOR = "LMCacheMPConnector"
STORES_EAGERLY = "LMCache stores what is computed at once"


def render(request: ExportRequest) -> Export:
    """The file that ``LMCACHE_CONFIG_FILE`` names, for LMCache inside every rank of the engine.

    Raises:
        ConfigError: the policy has no host tier larger than the device's, is a trial, or has chunks that the engine's
            blocks do not fill; or our plug-in was asked for.
    """
    document, host = _checked(request)
    share = shared.per_rank(document.budgets.host_bytes, request.ranks, "the host tier")
    settings: Settings = {
        "chunk_size": _chunk_tokens(host),
        "local_cpu": True,
        "max_local_cpu_size": share / GIB,
        "cache_policy": "LRU",
        **({"min_retrieve_tokens": host.min_load_tokens} if host.min_load_tokens else {}),
        **_disk(request),
    }
    check(settings)
    notes = (
        *_left_out(request, host),
        f"max_local_cpu_size is GiB per rank: {shared.gib(share)} for each of {request.ranks:,}, "
        f"{shared.gib(document.budgets.host_bytes)} in all; of a model with latent attention (MLA) only the first rank "
        "stores, so give it the whole as extra_config.first_rank_max_local_cpu_size",
        shared.device_for_vllm(request),
        shared.restart(),
        shared.for_version(document, ENGINE, VERSIONS),
        f"start vLLM with LMCACHE_CONFIG_FILE=FILE and --kv-transfer-config '{_connector(CONNECTOR)}', and no "
        "other connector",
    )
    return _export("lmcache", "LMCACHE_CONFIG_FILE", settings, _yaml(settings), notes)


def render_mp(request: ExportRequest) -> Export:
    """The flags of LMCache's server, which all ranks of one machine share.

    Raises:
        ConfigError: as for :func:`render`.
    """
    document, host = _checked(request)
    settings: Settings = {
        "l1-size-gb": document.budgets.host_bytes / GIB,
        "eviction-policy": "LRU",
        "chunk-size": _chunk_tokens(host),
    }
    if document.tiers.disk is not None and request.disk_dir is not None:
        settings["l2-adapter"] = {"type": "fs", "base_path": str(request.disk_dir)}
    check_mp(settings)
    notes = (
        *_left_out(request, host),
        *_mp_left_out(request, host),
        f"l1-size-gb counts GiB and is the total of the server: {shared.gib(document.budgets.host_bytes)} for all "
        "ranks and engines that use it",
        "room is made from 80 % use on, a fifth at a time (--eviction-trigger-watermark, --eviction-ratio)",
        shared.device_for_vllm(request),
        shared.restart("every flag of the server; engines may stay up"),
        shared.for_version(document, ENGINE, VERSIONS),
        f"start 'lmcache server' with it, and vLLM with --kv-transfer-config '{_connector(MP_CONNECTOR)}' and no "
        "other connector",
    )
    words = [word for name, value in settings.items() for word in (f"--{name}", _word(value))]
    return _export("lmcache-mp", "lmcache server", settings, shared.flags(*words), notes)


def check(settings: Settings) -> Settings:
    """Settings of the YAML file, if LMCache would use all of them as they stand.

    LMCache itself only logs unknown names, takes negative sizes, and leaves a disk tier without a folder away.

    Raises:
        ConfigError: it would not.
    """
    table("lmcache").check(settings)
    if settings.get("max_local_disk_size") and not settings.get("local_disk"):
        raise ConfigError(
            "max_local_disk_size counts only where local_disk names a folder",
            got="no local_disk",
            remedy="add local_disk: /path, or remove max_local_disk_size",
        )
    if settings.get("local_disk") and not settings.get("max_local_cpu_size", 5.0):
        raise ConfigError("the disk is reached through the host tier", got="max_local_cpu_size 0", remedy="raise it")
    return settings


def check_mp(settings: Settings) -> Settings:
    """Flags of the server, if they make sense together.

    Raises:
        ConfigError: they do not.
    """
    table("lmcache-mp").check(settings)
    if "eviction-policy" not in settings:
        raise ConfigError("the server needs an eviction policy", got="none", remedy="add --eviction-policy LRU")
    return settings


def _checked(request: ExportRequest) -> tuple[PolicyDocument, StoredTier]:
    document = shared.stock_only(request, ENGINE)
    host = shared.host_of(document, ENGINE)
    shared.check_host_is_larger(document, STORES_EAGERLY, "")
    shared.check_divides(
        _chunk_tokens(host),
        request.block_tokens,
        "a chunk of LMCache (tiers.host.chunk_tokens, else 256)",
        "change chunk_tokens in the policy, or give the --block-size that the engine is started with",
    )
    return document, host


def _chunk_tokens(host: StoredTier) -> int:
    return host.chunk_tokens or DEFAULT_CHUNK_TOKENS


def _disk(request: ExportRequest) -> Settings:
    if request.document.tiers.disk is None or request.disk_dir is None:
        return {}
    share = shared.per_rank(request.document.budgets.disk_bytes, request.ranks, "the disk tier")
    return {"local_disk": str(request.disk_dir), "max_local_disk_size": share / GIB}


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT:
        yield "not expressed: admission 'two_hit' on the host; every chunk is stored"
    yield from shared.eager_only(host, ENGINE)
    if host.chunk_tokens == 0:
        yield f"not expressed: storing block by block; LMCache stores chunks of {DEFAULT_CHUNK_TOKENS} tokens"
    yield from shared.disk_without_folder(request)
    yield from shared.no_extras(document, ENGINE)


def _mp_left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    if host.min_load_tokens:
        yield f"not expressed: the shortest load of {host.min_load_tokens:,} tokens; whatever is there is loaded"
    if request.document.tiers.disk is not None and request.disk_dir is not None:
        yield (
            f"not expressed: the budget of {shared.gib(request.document.budgets.disk_bytes)} on disk; "
            f"the server writes into {request.disk_dir} without a limit"
        )


def _connector(name: str) -> str:
    return json.dumps({"kv_connector": name, "kv_role": "kv_both"})


def _word(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _yaml(settings: Settings) -> str:
    """JSON values are YAML values, and quoted texts leave nothing to guess."""
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in settings.items())


def _export(engine: str, option: str, settings: Settings, text: str, notes: tuple[str, ...]) -> Export:
    return Export(engine=engine, flavor=Flavor.STOCK, option=option, settings=settings, text=text, notes=notes)
