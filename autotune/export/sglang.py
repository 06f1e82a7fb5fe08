"""Policy document → SGLang's hierarchical cache (HiCache).

Source: SGLang 0.5.23, ``srt/arg_groups/fields/memory.py`` (flags), ``srt/arg_groups/hicache_hook.py`` (which layouts
are rewritten), ``srt/mem_cache/pool_host/base.py`` (a size is 10^9 bytes per rank; a host pool that is not larger than
the device's is only warned of), ``srt/mem_cache/hicache_storage.py``, ``srt/managers/cache_controller.py`` (storage).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument, StoredTier
from autotune.core.types import Admission, StoreMode
from autotune.core.units import GB
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "SGLang"
VERSIONS = "0.5 (0.5.23 was tried)"
WRITE_BACK = "write_back"
KI_TOKENS = 1024
_STORAGE_ONLY = ("hicache-storage-backend-extra-config", "hicache-storage-prefetch-policy")


def render(request: ExportRequest) -> Export:
    """The flags with which an SGLang server gets a host tier, and a disk tier where a folder is given.

    Raises:
        ConfigError: the policy has no host tier, or one that would only mirror the device or is smaller than 1 GB per
            rank, is a trial, or has chunks that the engine's pages do not fill; or our plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    host = shared.host_of(document, ENGINE)
    shared.check_divides(host.chunk_tokens, request.block_tokens, "tiers.host.chunk_tokens", "change one of the two")
    settings: Settings = {
        "enable-hierarchical-cache": True,
        "max-total-tokens": _device_tokens(document),
        **_page(host, request.block_tokens),
        "radix-eviction-policy": "priority" if document.hints and document.hints.use_priority else "lru",
        "hicache-size": _host_gb(document, request.ranks),
        "hicache-write-policy": _write_policy(host),
        **_storage(request),
    }
    check(settings, device_gb=document.budgets.device_bytes / request.ranks / GB)
    return Export(
        engine="sglang",
        flavor=Flavor.STOCK,
        option="python -m sglang.launch_server",
        settings=settings,
        text=shared.flags(*_words(settings)),
        notes=(*_left_out(request, host), *_notes(request, settings)),
    )


def check(settings: Settings, device_gb: float | None = None) -> Settings:
    """Flags, if SGLang would do what they say; its parser takes far more.

    Args:
        settings: Flags without their dashes.
        device_gb: Size of the device's pool per rank in GB (10^9 bytes), where known.

    Raises:
        ConfigError: it would not, or the host tier would only mirror the device.
    """
    table("sglang").check(settings)
    if not settings.get("enable-hierarchical-cache"):
        stray = next((name for name in settings if name.startswith("hicache-")), None)
        if stray:
            raise ConfigError(f"--{stray} needs --enable-hierarchical-cache", got="the one alone", remedy="add it")
        return settings
    for other in ("disable-radix-cache", "enable-lmcache"):
        if settings.get(other):
            raise ConfigError(f"--enable-hierarchical-cache excludes --{other}", got="both", remedy="leave one away")
    _check_storage(settings)
    _check_size(settings, device_gb)
    return settings


def _check_storage(settings: Settings) -> None:
    if "hicache-storage-backend" not in settings:
        stray = next((name for name in _STORAGE_ONLY if name in settings), None)
        if stray:
            raise ConfigError(f"--{stray} needs --hicache-storage-backend", got="none", remedy="add it, or leave both")
    extra = settings.get("hicache-storage-backend-extra-config")
    if isinstance(extra, str) and not extra.startswith("@"):
        try:
            given = json.loads(extra)
        except ValueError as error:
            raise ConfigError("extra config of storage is a JSON object", got=repr(extra), remedy=str(error)) from error
        if not isinstance(given, dict):
            raise ConfigError("extra config of storage is a JSON object", got=repr(extra), remedy="write {...}")


def _check_size(settings: Settings, device_gb: float | None) -> None:
    """The host pool against the device's: by ratio, or by size where the device's is known."""
    if settings.get("hicache-write-policy") == WRITE_BACK:
        return  # stored at eviction, so the host holds what the device has not
    size, ratio = settings.get("hicache-size"), settings.get("hicache-ratio")
    if isinstance(size, int) and size > 0:
        small = device_gb is not None and size <= device_gb
        got = f"{size} GB per rank on the host and {device_gb:.1f} GB on the device" if device_gb is not None else ""
    else:
        small = isinstance(ratio, int | float) and ratio <= 1
        got = f"--hicache-ratio {ratio}"
    if small:
        raise ConfigError(
            "the host tier must be larger than the device tier: SGLang writes through, so the other only mirrors it",
            got=got,
            remedy="give the host more, or use store mode 'lazy', which is write_back",
        )


def _device_tokens(document: PolicyDocument) -> int:
    tokens = document.budgets.device_bytes // document.fingerprint.kv_bytes_per_token
    if tokens < 1:
        raise ConfigError(
            "the device tier must hold a token",
            got=f"{document.budgets.device_bytes:,} bytes",
            remedy=f"give it more than {document.fingerprint.kv_bytes_per_token:,} bytes",
        )
    return tokens


def _host_gb(document: PolicyDocument, ranks: int) -> int:
    size_gb = document.budgets.host_bytes // ranks // GB
    if size_gb < 1:
        raise ConfigError(
            "--hicache-size counts whole GB (10^9 bytes) per rank",
            got=f"{document.budgets.host_bytes:,} bytes for {ranks:,} ranks",
            remedy="give the host more, or fewer ranks",
        )
    return size_gb


def _page(host: StoredTier, block_tokens: int | None) -> Settings:
    """Pages are stored one by one, so a chunk is a page; without chunks the engine's own page stays."""
    page_tokens = host.chunk_tokens or block_tokens
    return {} if page_tokens is None else {"page-size": page_tokens}


def _write_policy(host: StoredTier) -> str:
    if host.store_mode is not StoreMode.EAGER:
        return WRITE_BACK
    return "write_through_selective" if host.admission is Admission.TWO_HIT else "write_through"


def _storage(request: ExportRequest) -> Settings:
    """A folder as third tier; a prefetch ends when computing its tokens would have been done."""
    disk = request.document.tiers.disk
    if disk is None or request.disk_dir is None:
        return {}
    per_ki_s = request.document.costs.prefill_linear_s_per_token * KI_TOKENS
    extra = {
        "file_storage_path": str(request.disk_dir),
        "prefetch_timeout_base": round(request.document.costs.disk_latency_s, 6),
        "prefetch_timeout_per_ki_token": round(per_ki_s, 6),
        **({"prefetch_threshold": disk.min_load_tokens} if disk.min_load_tokens else {}),
    }
    return {
        "hicache-storage-backend": "file",
        "hicache-storage-prefetch-policy": "timeout",
        "hicache-storage-backend-extra-config": json.dumps(extra),
    }


def _words(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        yield f"--{name}"
        if value is not True:
            yield str(value)


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT and host.store_mode is not StoreMode.EAGER:
        yield f"not expressed: admission 'two_hit' with store mode '{host.store_mode}'; write_back stores what leaves"
    if host.store_mode is StoreMode.EXCLUSIVE:
        yield "not expressed: store mode 'exclusive'; the host keeps its copy of a block that it gives back"
    if host.min_load_tokens:
        yield f"not expressed: the shortest load of {host.min_load_tokens:,} tokens; whatever the host has is loaded"
    yield from shared.disk_without_folder(request)
    if document.tiers.disk is not None and request.disk_dir is not None:
        yield f"not expressed: the budget of {shared.gib(document.budgets.disk_bytes)} on disk; files are not limited"
    if document.fingerprint.adapter_rule != "any":
        yield f"not expressed: adapter rule '{document.fingerprint.adapter_rule}'"
    if document.streaming is not None:
        yield "not expressed: streaming of running requests; SGLang keeps their KV on the device"
    if document.hints and document.hints.use_session:
        yield "not expressed: session hints of clients"


def _notes(request: ExportRequest, settings: Settings) -> Iterator[str]:
    document = request.document
    ratio = document.budgets.host_bytes / document.budgets.device_bytes
    yield (
        f"--hicache-size is whole GB (10^9 bytes) per rank: {settings['hicache-size']} of "
        f"{document.budgets.host_bytes / request.ranks / GB:,.2f} for each of {request.ranks:,}; "
        f"--hicache-ratio {ratio:.4g} would say the same against the device's pool"
    )
    yield (
        f"--max-total-tokens is the device budget of {shared.gib(document.budgets.device_bytes)} over all ranks, in "
        "tokens of the engine"
    )
    yield (
        "SGLang may rewrite --hicache-mem-layout: direct with page_first becomes page_first_direct, layer_first with "
        "mooncake page_first"
    )
    yield "HiCache excludes --disable-radix-cache and --enable-lmcache"
    yield shared.restart("sizes, page and policies; storage can be attached and detached live over HTTP")
    yield shared.for_version(document, ENGINE, VERSIONS)
