"""Policy document → Hugging Face Transformers: our streaming cache, or Transformers' own offloaded cache.

Source: Transformers 5.23, ``generation/configuration_utils.py`` (cache_implementation; names of backends in
cache_config are not checked) and ``cache_utils.py`` (the offloaded cache keeps no layer on the device and fetches one
ahead).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from autotune.core.errors import ConfigError
from autotune.core.policy import Streaming
from autotune.core.streaming import Placement
from autotune.export import shared
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings, Value

ENGINE = "Transformers"
VERSIONS = "5 (5.23 was tried)"
BACKENDS = ("quanto", "hqq", "fp8")


def render(request: ExportRequest) -> Export:
    """A few lines of Python with our cache, or the entries of ``generation_config.json``.

    Raises:
        ConfigError: the policy does not stream, is a trial, or asks Transformers' own cache for another share than 0
            or 1.
    """
    document = shared.confirmed(request.document)
    streaming = shared.streaming_of(document, ENGINE)
    if request.flavor is Flavor.STOCK:
        return _stock(request, streaming)
    settings: Settings = {
        "resident_frac": streaming.resident_frac,
        "prefetch_depth": streaming.prefetch_depth,
        **({} if streaming.placement is Placement.EVEN else {"placement": streaming.placement.value}),
    }
    return Export(
        engine="transformers",
        flavor=Flavor.PLUGIN,
        option="model.generate",
        settings=settings,
        text=_python(settings),
        notes=(
            *_left_out(request),
            f"p {streaming.resident_frac:g} of the layers that can be streamed stay on the device; the slots of "
            f"{streaming.prefetch_depth + 1} more layers are needed there",
            "sizes are those of one process: every rank has its own cache",
            "live: each call of generate may be given a cache with another p and depth",
            "kv-autotune must be installed beside Transformers",
            shared.for_version(document, ENGINE, VERSIONS),
        ),
    )


def check(generation: Settings) -> Settings:
    """Entries of a generation configuration, beyond what Transformers checks.

    Raises:
        ConfigError: a backend of a quantised cache that does not exist.
    """
    cache = generation.get("cache_config")
    backend = cache.get("backend") if isinstance(cache, dict) else None
    if backend is not None and backend not in BACKENDS:
        raise ConfigError(
            f"cache_config.backend must be one of {', '.join(BACKENDS)}",
            got=repr(backend),
            remedy="Transformers accepts any name here and fails in generate",
        )
    return generation


def _stock(request: ExportRequest, streaming: Streaming) -> Export:
    settings: Settings = {"cache_implementation": _implementation(streaming)}
    check(settings)
    offloaded = streaming.resident_frac == 0.0
    return Export(
        engine="transformers",
        flavor=Flavor.STOCK,
        option="generation_config.json",
        settings=settings,
        text=json.dumps(settings),
        notes=(
            *_left_out(request),
            *(
                (f"not expressed: prefetch depth {streaming.prefetch_depth}; one layer is fetched ahead",)
                * _odd(streaming)
            ),
            *(("the offloaded cache needs CUDA, and writes every whole layer back in each step",) * offloaded),
            "sizes are those of one process: every rank has its own cache",
            "live: cache_implementation may be given anew to each call of generate",
            shared.for_version(request.document, ENGINE, VERSIONS),
        ),
    )


def _odd(streaming: Streaming) -> bool:
    """Whether the depth is another than that of Transformers' offloaded cache."""
    return streaming.resident_frac == 0.0 and streaming.prefetch_depth != 1


def _implementation(streaming: Streaming) -> str:
    if streaming.resident_frac not in (0.0, 1.0):
        raise ConfigError(
            "Transformers' own caches keep all layers on the device or none: resident_frac must be 0 or 1",
            got=f"{streaming.resident_frac:g}",
            remedy="leave --flavor away for our streaming cache, which can keep a part",
        )
    return "dynamic" if streaming.resident_frac == 1.0 else "offloaded"


def _python(settings: Settings) -> str:
    arguments = ", ".join(f"{name}={_literal(name, value)}" for name, value in settings.items())
    return (
        ("from autotune.core.streaming import Placement\n" if "placement" in settings else "")
        + "from autotune_policies.engines.transformers import StreamingCache, cache_keyword\n\n"
        f"with StreamingCache(model.config, {arguments}) as cache:\n"
        "    output = model.generate(**inputs, **{cache_keyword(model): cache})"
    )


def _literal(name: str, value: Value) -> str:
    return f"Placement({value!r})" if name == "placement" else repr(value)


def _left_out(request: ExportRequest) -> Iterator[str]:
    document = request.document
    yield "not expressed: tiers of idle blocks and their rules; Transformers keeps no KV after a call"
    if document.tiers.disk is not None:
        yield f"not expressed: the disk tier of {shared.gib(document.budgets.disk_bytes)}"
    if document.hints is not None:
        yield "not expressed: hints of clients"
