"""Policy document → DeepSpeed ZeRO-Inference, where KV lies on the host altogether or not at all.

Source: DeepSpeedExamples, ``inference/huggingface/zero_inference/run_model.py`` (flags); DeepSpeed 0.19.8,
``runtime/zero/config.py`` and ``runtime/zero/offload_config.py`` (DeepSpeedZeroConfig takes NVMe without a path).
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import Streaming
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "DeepSpeed"
VERSIONS = "0.19 (0.19.8 was tried)"
OFFLOADS = ("offload_param", "offload_optimizer")


def render(request: ExportRequest) -> Export:
    """Flags for ``deepspeed run_model.py`` of ZeRO-Inference.

    Raises:
        ConfigError: the policy does not stream, streams a part, or is a trial; or our plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    streaming = shared.streaming_of(document, ENGINE)
    settings: Settings = {"batch-size": request.batch_size or 1, **_offload(streaming)}
    table("deepspeed").check(settings)
    return Export(
        engine="deepspeed",
        flavor=Flavor.STOCK,
        option="deepspeed run_model.py",
        settings={"flags": settings, "zero_optimization": check({"stage": 3})},
        text=shared.flags(*_words(settings)),
        notes=tuple(_notes(request, streaming)),
    )


def check(zero: Settings) -> Settings:
    """The section ``zero_optimization`` of a DeepSpeed configuration, beyond what DeepSpeed checks.

    Raises:
        ConfigError: something is to be offloaded to NVMe, and there is no path.
    """
    for name in OFFLOADS:
        section = zero.get(name)
        if isinstance(section, dict) and section.get("device") == "nvme" and not section.get("nvme_path"):
            raise ConfigError(
                f"{name} to nvme needs nvme_path",
                got="none; DeepSpeed accepts that and fails later",
                remedy="give a folder on the NVMe device, or use device cpu",
            )
    return zero


def _offload(streaming: Streaming) -> Settings:
    if streaming.resident_frac not in (0.0, 1.0):
        raise ConfigError(
            "DeepSpeed offloads all KV or none: streaming.resident_frac must be 0 or 1",
            got=f"{streaming.resident_frac:g}",
            remedy="use 0 (all KV on the host) or 1, or export for transformers or flexgen, which can split it",
        )
    if streaming.resident_frac == 1.0:
        return {}
    copies: Settings = {"async_kv_offload": True} if streaming.prefetch_depth else {}
    return {"kv-offload": True, "pin_kv_cache": True, **copies}


def _words(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        yield f"--{name}"
        if value is not True:
            yield str(value)


def _notes(request: ExportRequest, streaming: Streaming) -> Iterator[str]:
    document = request.document
    if streaming.resident_frac == 0.0:
        yield "all KV lies in pinned host memory (--kv-offload --pin_kv_cache)"
    else:
        yield "all KV stays on the device: nothing is said about it"
    if streaming.prefetch_depth > 1 and streaming.resident_frac == 0.0:
        yield f"not expressed: prefetch depth {streaming.prefetch_depth}; copies are asynchronous or not"
    yield "not expressed: tiers of idle blocks and their rules; no KV is kept after a batch"
    yield "weights are no part of the policy: --cpu-offload or --disk-offload say where they lie"
    yield "sizes follow from --batch-size, per process; there is no budget in bytes"
    yield "inference v2 of DeepSpeed has no offload of KV: this is for ZeRO-Inference"
    yield shared.restart("every run")
    yield shared.for_version(document, ENGINE, VERSIONS)
