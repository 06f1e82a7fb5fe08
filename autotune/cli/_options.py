"""Options that several commands share, declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.core.errors import ConfigError
from autotune.core.units import GB

if TYPE_CHECKING:
    from autotune.core.settings import Settings
    from autotune.core.types import RankForm

Sources = Annotated[
    list[str],
    typer.Option(
        "--trace", metavar="FORMAT:PATH", help="Trace; may be repeated: several of one format are one stream."
    ),
]
SourcesIfAny = Annotated[list[str] | None, Sources.__metadata__[0]]
OnError = Annotated[
    str,
    typer.Option("--on-error", metavar="fail|skip", help="What becomes of malformed rows: fail, or skip and count."),
]
OnErrorOrSettings = Annotated[
    str | None,
    typer.Option("--on-error", metavar="fail|skip", help="The same; as the settings say if not given."),
]
ReaderOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Option of the trace reader; may be repeated."),
]
Model = Annotated[str, typer.Option("--model", help="Model by name, or a path to its config.json.")]
Hardware = Annotated[str, typer.Option("--hardware", help="Hardware profile by name, or a path to one.")]
DeviceGib = Annotated[float | None, typer.Option("--device-gib", help="KV cache on the device, in GiB.")]
DeviceBlocks = Annotated[int | None, typer.Option("--device-blocks", help="The same in blocks of the trace.")]
HostGib = Annotated[float | None, typer.Option("--host-gib", help="KV cache in host memory, in GiB.")]
HostBlocks = Annotated[int | None, typer.Option("--host-blocks", help="The same in blocks of the trace.")]
DiskGib = Annotated[float | None, typer.Option("--disk-gib", help="KV cache on disk, in GiB.")]
DiskBlocks = Annotated[int | None, typer.Option("--disk-blocks", help="The same in blocks of the trace.")]
LinkGbPerS = Annotated[
    float | None, typer.Option("--link-gb-per-s", help="Host link in GB/s, both directions; else the profile's.")
]
WriteGbPerS = Annotated[
    float | None,
    typer.Option(
        "--write-gb-per-s",
        help="GB per second that a learned policy may store to the host on average; else as the settings say.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="canonical|vllm|vllm-0.32",
        help="By whose rules the host works; vllm: those of the newest vLLM known here, on full blocks.",
    ),
]
Scenario = Annotated[
    str | None,
    typer.Option("--scenario", metavar="NAME|FILE", help="Kind of traffic, such as long-chat: load and settings."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def with_write_budget(settings: Settings, gb_per_s: float | None) -> Settings:
    """The settings with a write budget for what is learned, if one was given.

    Raises:
        ConfigError: it is out of range.
    """
    if gb_per_s is None:
        return settings
    from autotune.core.settings import Settings
    from autotune.core.validation import validate

    tree = settings.model_dump(mode="json")
    tree["online"]["write_bytes_per_s"] = gb_per_s * GB
    return validate(Settings, tree, ConfigError, "settings")


def with_form(settings: Settings, form: RankForm | None) -> Settings:
    """The settings with the form in which what is learned ranks blocks, if one was given."""
    if form is None:
        return settings
    return settings.model_copy(update={"online": settings.online.model_copy(update={"form": form})})


def measured_from_s(text: str | None, span_s: float) -> float:
    """Seconds from ``900s`` or ``40%`` (a share of time).

    Raises:
        ConfigError: it is neither, or lies outside the trace.
    """
    if text is None:
        return 0.0
    number, unit = (text[:-1], text[-1]) if text.endswith(("s", "%")) else (text, "s")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    seconds = value * span_s / 100.0 if unit == "%" else value
    if not 0.0 <= seconds < max(span_s, 1e-9):
        raise ConfigError(
            "--measure-from is a time within the trace, in seconds or as a share of it",
            got=f"{text!r} for a trace of {span_s:g} s",
            remedy="for example 900s or 40%",
        )
    return seconds
