"""``kv-autotune simulate``: run a trace through a simulated engine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _online as online
from autotune.cli import _options as options
from autotune.cli._out import require_writable
from autotune.cli.common import print_json, reader_options, stdout_console
from autotune.core.errors import ConfigError
from autotune.core.types import RankForm, StoreMode, Timing

if TYPE_CHECKING:
    from rich.table import Table

    from autotune.api import Policy, Simulation
    from autotune.core.settings import QueueSettings


def simulate(
    trace: options.Sources,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME|FILE",
            help="Policy of the host if there is one, else of the device; online: learned as it runs, for both; or a "
            "policy file (.yaml, or with a slash).",
        ),
    ] = "lru",
    device_policy: Annotated[
        str | None, typer.Option("--device-policy", metavar="NAME", help="Policy of the device; lru if not given.")
    ] = None,
    device_blocks: options.DeviceBlocks = None,
    device_gib: options.DeviceGib = None,
    host_blocks: options.HostBlocks = None,
    host_gib: options.HostGib = None,
    disk_blocks: options.DiskBlocks = None,
    disk_gib: options.DiskGib = None,
    model: options.Model = "llama-3.1-8b",
    hardware: options.Hardware = "h100-sxm",
    link_gb_per_s: options.LinkGbPerS = None,
    write_gb_per_s: options.WriteGbPerS = None,
    form: Annotated[
        RankForm | None,
        typer.Option(
            "--form",
            help="With online: whether what is learned ranks blocks anew in every tick (hazard) or by a key that does "
            "not change while a block lies idle (fixed_key); if not given, as the guard finds either better.",
        ),
    ] = None,
    store: Annotated[
        StoreMode | None,
        typer.Option(
            "--store", help="When the host gets a block; eager if not given, lazy for online once it has learned."
        ),
    ] = None,
    timing: Annotated[Timing, typer.Option("--timing", help="When a request's blocks become idle.")] = Timing.INSTANT,
    full_blocks: Annotated[
        bool, typer.Option("--full-blocks", help="Drop partial tail blocks, always recompute one token, as engines do.")
    ] = False,
    engine: options.Engine = None,
    servers: Annotated[int | None, typer.Option("--servers", help="Prefill servers, for TTFT.")] = None,
    time_scale: Annotated[float | None, typer.Option("--time-scale", help="Factor on arrival times, for TTFT.")] = None,
    measure_from: Annotated[
        str | None, typer.Option("--measure-from", metavar="900s|40%", help="Count from this time on; before, warm up.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, help="Spreads arrivals inside a tick of the trace's clock; what online draws."),
    ] = 0,
    settings: Annotated[
        Path | None, typer.Option("--settings", metavar="FILE", help="Settings in YAML; sections queue and online.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="With online: where policy.yaml and report.html go; else nowhere."),
    ] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether --out gets report.html too.")] = True,
    on_error: options.OnError = "fail",
    option: options.ReaderOptions = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a trace through a simulated engine and count what it would have cost.

    Without a host tier --policy governs the device; with one it governs the host and the device keeps LRU.
    """
    from autotune import api
    from autotune.core.settings import load_settings
    from autotune.core.trace import Trace

    _refuse_options_of_online(policy, write_gb_per_s, form, out)
    if out is not None:
        require_writable(out)
    chosen = options.with_form(options.with_write_budget(load_settings(settings), write_gb_per_s), form)
    loaded = Trace.open(trace, **reader_options(option or (), on_error=on_error))
    loaded.require_blocks()
    budget = api.Budget(device_gib, host_gib, disk_gib, device_blocks, host_blocks, disk_blocks)
    outcome = api.simulate(
        loaded,
        _policy(policy),
        device_policy=device_policy,
        model=model,
        hardware=hardware,
        link_gb_per_s=link_gb_per_s,
        budget=None if budget == api.Budget() else budget,
        store=store,
        timing=timing,
        full_blocks=full_blocks,
        engine=engine,
        measure_from_s=options.measured_from_s(measure_from, loaded.span_s),
        queue=_queue(chosen.queue, servers, time_scale),
        require_ttft=servers is not None or time_scale is not None,
        seed=seed,
        settings=chosen,
    )
    written = online.write_run(outcome.online, out, " + ".join(trace), report=report) if outcome.online and out else ()
    if as_json:
        paths = {"policy_path": str(out / "policy.yaml")} if written and out else {}
        print_json(as_object(outcome) | {"policy": policy} | paths)
    else:
        _print(policy, outcome)
        for line in written:
            typer.echo(line)


def as_object(outcome: Simulation) -> dict[str, object]:
    """The JSON object of a simulation; latencies are null where the load is not stable."""
    queue = outcome.queue
    latency = {
        f"ttft_{name}_s": queue.quantile_s(q) if queue else None
        for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    device, host, disk = outcome.cache.config.capacities
    return {
        **asdict(outcome.totals),
        **latency,
        "ttft_note": outcome.ttft_note,
        "goodput_frac": queue.goodput_frac if queue else None,
        "load_frac": queue.load_frac if queue else None,
        "cost_s": outcome.totals.cost_s,
        "device_blocks": device,
        "host_blocks": host,
        "disk_blocks": disk,
        "block_bytes": outcome.cache.block_bytes,
        "engine": str(outcome.cache.config.semantics),
        "measured_from_request": outcome.measured[0],
    } | ({"online": online.as_object(outcome.online)} if outcome.online else {})


def _refuse_options_of_online(
    policy: str, write_gb_per_s: float | None, form: RankForm | None, out: Path | None
) -> None:
    """What only the policy ``online`` obeys is not silently ignored.

    Raises:
        ConfigError: it was given with another policy.
    """
    if policy == "online":
        return
    own = "drop it; a policy file says its own"
    for option, value, remedy in (
        ("--write-gb-per-s", write_gb_per_s, f"{own} (budgets.host_write)"),
        ("--form", form, f"{own} (class_hazard.form)"),
        ("--out", out, "drop --out"),
    ):
        if value is not None:
            raise ConfigError(f"{option} belongs to --policy online", got=f"--policy {policy}", remedy=remedy)


def _queue(section: QueueSettings, servers: int | None, time_scale: float | None) -> QueueSettings:
    """The section with what the command line gives on top.

    Raises:
        ConfigError: a value is out of range.
    """
    from autotune.core.settings import QueueSettings
    from autotune.core.validation import validate

    given = {name: value for name, value in (("servers", servers), ("time_scale", time_scale)) if value is not None}
    return validate(QueueSettings, section.model_dump() | given, ConfigError, "queue")


def _policy(text: str) -> str | Policy:
    from autotune import api

    return api.Policy.load(text) if text.endswith((".yaml", ".yml")) or "/" in text else text


def _print(policy: str, outcome: Simulation) -> None:
    console = stdout_console()
    console.print(_table(policy, outcome))
    if outcome.online:
        online.print_run(outcome.online, console)
    typer.echo(outcome.ttft_note, err=True)


def _table(policy: str, outcome: Simulation) -> Table:
    from rich.table import Table
    from rich.text import Text

    totals = outcome.totals
    title = f"{policy} on {totals.requests:,} requests, {totals.accesses:,} block accesses"
    table = Table(title=Text(title), show_header=False)
    for name, blocks in (
        ("device hits", totals.device_hit_blocks),
        ("host hits", totals.host_hit_blocks),
        ("disk hits", totals.disk_hit_blocks),
        ("computed", totals.computed_blocks),
    ):
        table.add_row(name, f"{blocks:,} blocks ({100 * blocks / max(1, totals.accesses):.1f} %)")
    table.add_row("tokens not computed", f"{totals.hit_tokens:,} of {totals.prompt_tokens:,}")
    for name, seconds in (
        ("net seconds saved", totals.net_seconds_saved),
        ("= recompute saved", totals.recompute_saved_s),
        ("- loads", totals.load_s),
        ("- exposed stores", totals.store_exposed_s),
        ("recompute spent", totals.recompute_s),
    ):
        table.add_row(name, f"{seconds:,.1f} s")
    table.add_row("stored, loaded", f"{totals.stored_bytes / 1e9:,.1f} GB, {totals.loaded_bytes / 1e9:,.1f} GB")
    if outcome.queue:
        quantiles = " / ".join(f"{outcome.queue.quantile_s(q):.3f}" for q in (0.5, 0.95, 0.99))
        table.add_row("TTFT p50 / p95 / p99", f"{quantiles} s")
    return table
