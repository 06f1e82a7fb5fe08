"""``kv-autotune advise``: which technique answers the pressure at hand, and which does not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json, reader_options, stdout_console
from autotune.core.errors import ConfigError
from autotune.core.units import MIB

if TYPE_CHECKING:
    from autotune.advise.advice import Advice
    from autotune.advise.classes import ClassService
    from autotune.advise.scenarios import TrafficClass
    from autotune.api import Simulation
    from autotune.core.trace import Trace


_MAX_PAGE_BYTES = 64 * MIB


def advise(
    trace: options.SourcesIfAny = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics", metavar="FILE", help="Saved /metrics of a running engine, instead of a trace; - is stdin."
        ),
    ] = None,
    model: options.Model = "llama-3.1-8b",
    hardware: options.Hardware = "h100-sxm",
    device_gib: Annotated[float, typer.Option("--device-gib", help="KV cache on the device, in GiB.")] = 40.0,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", metavar="NAME", help="Format of the KV, such as fp8.")
    ] = None,
    link_gb_per_s: options.LinkGbPerS = None,
    host_gib: options.HostGib = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Policy that serves the classes; LRU if none."),
    ] = None,
    idle_s: Annotated[float, typer.Option("--idle-s", help="Seconds without use after which a block is idle.")] = 60.0,
    scenario: options.Scenario = None,
    settings: Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="Settings in YAML.")] = None,
    on_error: options.OnError = "fail",
    option: options.ReaderOptions = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what presses on a device under a trace, which technique answers it, on what evidence and at what risk.

    Rules: quantise before evicting; sparse reads save bandwidth, not memory; offload where idle blocks come back; keep
    what changes behind what is common. The page of a running engine says less than a trace. With a scenario that has
    classes, how each class of requests is served is shown.
    """
    from autotune import api
    from autotune.advise.scenarios import load_scenario, scenario_settings
    from autotune.core.trace import Trace

    _require_fit(trace, metrics, policy, scenario)
    if metrics is not None:
        live = api.advise_live(
            _page(metrics),
            model=model,
            hardware=hardware,
            device_gib=device_gib,
            kv_dtype=kv_dtype,
            link_gb_per_s=link_gb_per_s,
        )
        _show(live, (), as_json=as_json)
        return
    chosen = scenario_settings(scenario, settings)
    loaded = Trace.open(trace or [], **reader_options(option or (), on_error=on_error))
    advice = api.advise(
        loaded,
        model=model,
        hardware=hardware,
        device_gib=device_gib,
        kv_dtype=kv_dtype,
        link_gb_per_s=link_gb_per_s,
        idle_s=idle_s,
        settings=chosen,
    )
    known = load_scenario(scenario).classes if scenario is not None else ()
    if not known:
        _show(advice, (), as_json=as_json)
        return
    outcome = api.simulate(
        loaded,
        api.Policy.load(policy) if policy else "lru",
        model=model,
        hardware=hardware,
        link_gb_per_s=link_gb_per_s,
        budget=api.Budget(device_gib=device_gib, host_gib=host_gib),
        queue=chosen.queue,
        require_ttft=True,
        settings=chosen,
    )
    _show(advice, services(known, loaded, outcome), as_json=as_json)


def _require_fit(trace: list[str] | None, metrics: Path | None, policy: Path | None, scenario: str | None) -> None:
    """Options that say nothing together are refused.

    Raises:
        ConfigError: neither or both of trace and page, or a policy that has no classes to serve.
    """
    if (trace is None) == (metrics is None):
        given = "neither" if trace is None else "both"
        raise ConfigError("advice needs either --trace or --metrics", got=given, remedy="give --trace FORMAT:PATH")
    if policy is not None and (scenario is None or metrics is not None):
        raise ConfigError(
            "--policy serves the classes of a scenario on a trace",
            got="--policy without them",
            remedy="give --trace and --scenario too",
        )


def _page(path: Path) -> str:
    from autotune.core.strict_yaml import read_text

    return sys.stdin.read() if str(path) == "-" else read_text(path, ConfigError, _MAX_PAGE_BYTES)


def _show(advice: Advice, classes: tuple[ClassService, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"advice": advice, "classes": classes})
    else:
        _print(advice, classes)


def services(known: tuple[TrafficClass, ...], trace: Trace, outcome: Simulation) -> tuple[ClassService, ...]:
    """How each class was served among the measured requests."""
    from autotune.advise.classes import service_of_classes

    if outcome.queue is None:
        return ()
    return service_of_classes(known, trace.input_tokens[slice(*outcome.measured)], outcome.queue.ttft_s)


def _print(advice: Advice, classes: tuple[ClassService, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = stdout_console()
    for finding in advice.findings:
        console.print(f"Short: {finding.pressure} ({finding.evidence}).", markup=False, highlight=False)
    if not advice.findings:
        console.print("Nothing is short.", markup=False, highlight=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("technique", "try it", "because", "risk"):
        table.add_column(heading)
    for row in advice.techniques:
        table.add_row(row.technique, row.answer, row.because, row.risk)
    console.print()
    console.print(table)
    for service in classes:
        met = "met" if service.met else "missed"
        console.print(
            f"Class {service.name}: {100 * service.goodput_frac:.1f} % of {service.requests:,} requests within "
            f"{service.ttft_goal_s:g} s, goal {100 * service.goodput_goal_frac:.0f} % ({met}).",
            markup=False,
            highlight=False,
        )
    console.print()
    for note in advice.notes:
        console.print(f"Note: {note}.", markup=False, highlight=False)
