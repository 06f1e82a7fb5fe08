"""Policy document → vLLM's short form: ``--kv-offloading-size`` and its backend, without a connector of one's own.

Source: vLLM 0.32.0, ``config/cache.py`` (kv_offloading_size, in GiB, over all ranks) and ``config/vllm.py``
(``_post_init_kv_transfer_config``: it overwrites the connector and the size of ``--kv-transfer-config``).
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import StoredTier
from autotune.core.types import Admission
from autotune.core.units import GIB
from autotune.export import shared
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings
from autotune.export.vllm import STORES_EAGERLY

ENGINE = "vLLM"
VERSIONS = "0.24 to 0.33"


def render(request: ExportRequest) -> Export:
    """The two flags with which ``vllm serve`` gets a host tier of the policy's size.

    Raises:
        ConfigError: the policy has no host tier larger than the device's, is a trial, or has chunks; or our plug-in
            was asked for.
    """
    document = shared.stock_only(request, "vLLM's short form")
    host = shared.host_of(document, ENGINE)
    shared.check_host_is_larger(document, STORES_EAGERLY, "export for 'vllm' with store mode 'lazy'")
    if host.chunk_tokens:
        raise ConfigError(
            "vLLM's short form has no place for chunks",
            got=f"tiers.host.chunk_tokens {host.chunk_tokens:,}",
            remedy="set it to 0, or export for 'vllm'",
        )
    settings: Settings = {
        "kv-offloading-size": document.budgets.host_bytes / GIB,
        "kv-offloading-backend": "native",
    }
    check(settings)
    return Export(
        engine="vllm-size",
        flavor=Flavor.STOCK,
        option="vllm serve",
        settings=settings,
        text=shared.flags(*(word for name, value in settings.items() for word in (f"--{name}", str(value)))),
        notes=(
            *_left_out(request, host),
            f"--kv-offloading-size is GiB in all: {shared.gib(document.budgets.host_bytes)} over the tensor- and "
            "pipeline-parallel ranks of one engine; every data-parallel replica takes as much again",
            shared.device_for_vllm(request),
            shared.restart(),
            shared.for_version(document, ENGINE, VERSIONS),
            "leave --kv-transfer-config away: these flags overwrite its connector and its size",
        ),
    )


def check(settings: Settings) -> Settings:
    """Flags of ``vllm serve``, if they make sense together; vLLM takes a negative size, and overwrites in silence.

    Raises:
        ConfigError: they do not.
    """
    size = settings.get("kv-offloading-size")
    if size is not None and "kv-transfer-config" in settings:
        raise ConfigError(
            "--kv-offloading-size and --kv-transfer-config are never given together",
            got="both; the size would overwrite connector and bytes of the other",
            remedy="leave one of them away",
        )
    if size is not None and not (isinstance(size, int | float) and size > 0):
        raise ConfigError("--kv-offloading-size must be greater than 0", got=size, remedy="give GiB over all ranks")
    return settings


def _left_out(request: ExportRequest, host: StoredTier) -> Iterator[str]:
    document = request.document
    yield from shared.no_rules(document, ENGINE)
    if host.admission is Admission.TWO_HIT:
        yield "not expressed: admission 'two_hit' on the host; export for 'vllm', whose store_threshold says it"
    yield from shared.eager_only(host, ENGINE)
    yield "not expressed: load or recompute; vLLM loads whatever the host has, however short the run"
    if document.tiers.disk is not None:
        yield f"not expressed: the disk tier of {shared.gib(document.budgets.disk_bytes)}; export for 'vllm'"
    yield from shared.no_extras(document, ENGINE)
