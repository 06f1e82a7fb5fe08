"""Policy document → FlexGen: ``--percent`` and the batches that decide what it means.

Source: FlexGen 0.1.8, ``flexgen/flex_opt.py`` (six percentages: weights, cache and activations, each on GPU and CPU;
the rest goes to disk) and ``flexgen/pytorch_backend.py`` (the cache is split by whole sequences, rounded down).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.core.policy import Streaming
from autotune.export import shared
from autotune.export.field_table import table
from autotune.export.renderer import Export, ExportRequest, Flavor, Settings

ENGINE = "FlexGen"
VERSIONS = "0.1 (0.1.8 was tried)"
DEFAULT_BATCH = 4
N_PERCENT = 6
MAX_GAP = Fraction(1, 20)  # a twentieth of the cache: beyond it the run is another policy


def render(request: ExportRequest) -> Export:
    """Flags for ``python -m flexgen.flex_opt``.

    Raises:
        ConfigError: the policy does not stream, is a trial, or asks for a resident share that whole sequences of this
            batch come nowhere near; or our plug-in was asked for.
    """
    document = shared.stock_only(request, ENGINE)
    streaming = shared.streaming_of(document, ENGINE)
    batch = request.batch_size or DEFAULT_BATCH
    percent, effective = split(streaming.resident_frac, batch)
    settings: Settings = {
        "gpu-batch-size": batch,
        "num-gpu-batches": 1,
        "percent": [100, 0, percent, 100 - percent, 100, 0],
        **({} if streaming.prefetch_depth else {"overlap": False}),
    }
    check(settings)
    return Export(
        engine="flexgen",
        flavor=Flavor.STOCK,
        option="python -m flexgen.flex_opt",
        settings={**settings, "p_eff": float(effective)},
        text=shared.flags(*_words(settings)),
        notes=tuple(_notes(request, streaming, batch, effective)),
    )


def split(resident_frac: float, batch: int) -> tuple[int, Fraction]:
    """The percentage of the cache on the GPU, and the share that really lies there.

    Args:
        resident_frac: p, the share that should lie there.
        batch: Sequences per batch, which are placed whole.

    Raises:
        ConfigError: the two differ by more than a twentieth.
    """
    wanted = Fraction(str(resident_frac))
    sequences = int(wanted * batch)
    highest = min(100, ((sequences + 1) * 100 - 1) // batch)  # the largest percentage that gives no more than that
    placed = highest * batch // 100
    percent, effective = -(-placed * 100 // batch), Fraction(placed, batch)
    if wanted - effective > MAX_GAP:
        raise ConfigError(
            "FlexGen places whole sequences, so the share on the GPU is floor(batch * p) / batch",
            got=f"p {resident_frac:g} with a batch of {batch:,}, which gives p_eff {float(effective):.4g}",
            remedy=f"use --batch-size {wanted.denominator:,} or a multiple, or resident_frac {float(effective):.4g}",
        )
    return percent, effective


def check(settings: Settings) -> Settings:
    """Flags, if they are complete; FlexGen's parser takes any number of percentages and any sum.

    Raises:
        ConfigError: there are not six percentages, one of them is impossible, or a pair is over 100.
    """
    table("flexgen").check(settings)
    percent = settings.get("percent")
    if not isinstance(percent, list) or len(percent) != N_PERCENT:
        raise ConfigError(
            "--percent takes six numbers: weights, cache and activations, each on GPU and CPU",
            got=json.dumps(percent),
            remedy="give six",
        )
    values = [value for value in percent if isinstance(value, int) and 0 <= value <= 100]
    if len(values) != N_PERCENT:
        raise ConfigError("--percent takes whole numbers from 0 to 100", got=json.dumps(percent), remedy="correct it")
    for name, on_gpu, on_cpu in zip(("weights", "cache", "activations"), values[::2], values[1::2], strict=True):
        if on_gpu + on_cpu > 100:
            raise ConfigError(
                f"the percentages of the {name} on GPU and CPU are at most 100 together",
                got=f"{on_gpu} and {on_cpu}",
                remedy="the rest goes to disk; there is no negative rest",
            )
    return settings


def _words(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        yield f"--{name}"
        yield from map(str, value) if isinstance(value, list) else [str(value).lower()]


def _notes(request: ExportRequest, streaming: Streaming, batch: int, effective: Fraction) -> Iterator[str]:
    document = request.document
    yield (
        f"p_eff is {float(effective):.4g} for p {streaming.resident_frac:g}: whole sequences, rounded down, of "
        f"--gpu-batch-size {batch:,}; sequences in work are that times --num-gpu-batches"
    )
    if streaming.prefetch_depth > 1:
        yield f"not expressed: prefetch depth {streaming.prefetch_depth}; FlexGen overlaps the next step only, or none"
    yield "not expressed: layers that stay resident; FlexGen splits by sequence, not by layer"
    yield "not expressed: tiers of idle blocks and their rules; FlexGen keeps no KV after a batch"
    if document.tiers.disk is not None:
        yield f"not expressed: the disk tier of {shared.gib(document.budgets.disk_bytes)}; the rest is on the CPU"
    yield "weights and activations are no part of the policy: they stay on the GPU here (100 0 and 100 0)"
    yield "sizes are those of one process; FlexGen's budget follows from the batch, not from bytes"
    yield shared.restart("every run")
    yield shared.for_version(document, ENGINE, VERSIONS)
