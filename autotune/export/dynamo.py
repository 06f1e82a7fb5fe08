"""Policy document → Dynamo's block manager (KVBM): its environment.

Source: Dynamo 1.6.1, the names in the library of its package ``kvbm``; ``lib/bindings/kvbm/src/block_manager/
distributed/leader.rs`` (sizes are decimal numbers, and what is no number counts as 0) and ``lib/llm/src/block_manager/
distributed/leader.rs`` (1 GB is 10^9 bytes, over all workers); the guide to KVBM (write-through: each tier must be
larger than the one above).
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument, StoredTier
from autotune.core.types import Admission
from autotune.core.units import GB
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "Dynamo"
VERSIONS = "1.6 (1.6.1 was tried)"
PREFIX = "DYN_KVBM_"


def render(request: ExportRequest) -> Export:
    """Lines of a shell that set the environment of ``python -m dynamo.vllm`` or ``dynamo.trtllm``.

    Raises:
        ConfigError: the policy has no host tier, or tiers that are not each larger than the one above, is a trial, or
            has chunks that blocks do not fill; or our plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    host = shared.host_of(document, ENGINE)
    shared.check_host_is_larger(document, "KVBM writes through", "")
    if host.chunk_tokens:
        shared.check_divides(host.chunk_tokens, request.block_tokens, "tiers.host.chunk_tokens", "set it to 0")
    settings: Settings = {f"{PREFIX}CPU_CACHE_GB": document.budgets.host_bytes / GB, **_disk(request)}
    check(settings)
    return Export(
        engine="dynamo",
        flavor=Flavor.STOCK,
        option="environment",
        settings={"environment": settings, "router": _router(document)},
        text="\n".join(f"export {name}={shared.flags(_word(value))}" for name, value in settings.items()),
        notes=(
            *_left_out(request, host),
            f"{PREFIX}CPU_CACHE_GB counts GB of 10^9 bytes, over all ranks of one engine: "
            f"{shared.gib(document.budgets.host_bytes)} in all; every replica takes as much again",
            shared.device_for_vllm(request),
            f"{PREFIX}METRICS=true and {PREFIX}METRICS_PORT show what it does; DYN_METRICS_PORT is another thing",
            "for the router, a hit below the device is worth what loading leaves of its recompute: "
            + ", ".join(f"{name} {value}" for name, value in _router(document).items()),
            shared.restart(),
            shared.for_version(document, ENGINE, VERSIONS),
            "start the engine with --connector kvbm, never beside another connector",
        ),
    )


def check(settings: Settings) -> Settings:
    """The variables of KVBM, if it would read all of them as they stand; it ignores what it does not know.

    Raises:
        ConfigError: it would not.
    """
    table("dynamo").check(settings)
    host, disk = (settings.get(f"{PREFIX}{tier}_CACHE_GB", 0) for tier in ("CPU", "DISK"))
    blocks = any(name.endswith("OVERRIDE_NUM_BLOCKS") for name in settings)
    if not (host or disk or blocks):
        raise ConfigError(f"KVBM needs a tier below the device: {PREFIX}CPU_CACHE_GB", got="none", remedy="set it")
    if isinstance(host, int | float) and isinstance(disk, int | float) and 0 < disk <= host:
        raise ConfigError(
            "the disk tier must be larger than the host tier: KVBM writes through, so a smaller one only mirrors it",
            got=f"{host} GB on the host and {disk} GB on disk",
            remedy="give the disk more, or leave it away",
        )
    return settings


def _router(document: PolicyDocument) -> Settings:
    """What a hit below the device is worth to the router: the share of its recompute that a load leaves."""
    costs = document.costs
    weights = (
        1.0 - costs.kv_bytes_per_token / bytes_per_s / costs.prefill_linear_s_per_token
        for bytes_per_s in (costs.load_bytes_per_s, costs.disk_bytes_per_s)
    )
    host, disk = (round(min(1.0, max(0.0, weight)), 4) for weight in weights)
    return {"host_cache_hit_weight": host, "disk_cache_hit_weight": disk}


def _disk(request: ExportRequest) -> Settings:
    if request.document.tiers.disk is None or request.disk_dir is None:
        return {}
    return {
        f"{PREFIX}DISK_CACHE_GB": request.document.budgets.disk_bytes / GB,
        f"{PREFIX}DISK_CACHE_DIR": str(request.disk_dir),
    }


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT:
        yield "not expressed: admission 'two_hit' on the host; every block is stored"
    yield from shared.eager_only(host, ENGINE)
    if host.chunk_tokens:
        yield f"not expressed: chunks of {host.chunk_tokens:,} tokens; KVBM stores blocks of the engine one by one"
    if host.min_load_tokens:
        yield f"not expressed: the shortest load of {host.min_load_tokens:,} tokens; whatever the host has is loaded"
    yield from shared.disk_without_folder(request)
    yield from shared.no_extras(document, ENGINE)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
