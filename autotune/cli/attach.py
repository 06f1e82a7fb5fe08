"""``kv-autotune attach``: run beside an engine, learn, and publish as far as the mode lets it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar

if TYPE_CHECKING:
    from autotune.core.sidecar_settings import SidecarSettings
    from autotune.daemon.controller import LoopController
    from autotune.daemon.settings import LiveSettings
    from autotune.daemon.state import StateFolder
    from autotune.daemon.status import DaemonStatus, Mode
    from autotune.daemon.wiring import Wanted


def attach(
    urls: sidecar.Urls,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="observe|recommend|canary|auto|freeze", help="How much it may do."),
    ] = None,
    policy: sidecar.PolicyFile = None,
    state: sidecar.State = None,
    once: Annotated[
        bool, typer.Option("--once", help="Two rounds, then print what is known and end; no HTTP server.")
    ] = False,
    settings: Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="Settings in YAML.")] = None,
    check_config: Annotated[
        bool, typer.Option("--check-config", help="Print the settings that would hold, and end.")
    ] = False,
    telemetry: Annotated[
        list[str] | None,
        typer.Option(
            "--telemetry",
            metavar="file:DIR|ipc://PATH|tcp://HOST:PORT|off",
            help="The plug-in's records; if not given, they are taken from where the engine's page says.",
        ),
    ] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--events",
            metavar="ENDPOINT[,REPLAY]|off",
            help="The engine's KV events, such as tcp://HOST:5557; if not given, the engine is asked where they are.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model, for costs until they are measured.")] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="Hardware profile, likewise.")] = None,
    device_gib: options.DeviceGib = None,
    host_gib: options.HostGib = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", help="Port of the sidecar's own server; 0 = any free one.")
    ] = None,
    api_key_file: sidecar.ApiKeyFile = None,
    ca_file: sidecar.CaFile = None,
    cert_file: sidecar.CertFile = None,
    key_file: sidecar.KeyFile = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print the status after each round as one line of JSON, for logs.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Attach to a running engine: watch, learn, tune on the recorded past, and act as far as --mode lets it."""
    from autotune.daemon.settings import LiveSettings, SettingsSource, effective_text
    from autotune.daemon.status import Mode
    from autotune.daemon.wiring import Wanted

    flags: dict[str, object] = {"mode": mode, "http.port": http_port}
    live = LiveSettings(SettingsSource(settings, os.environ, flags))
    if check_config:
        typer.echo(effective_text(live.current))
        return
    wanted = Wanted(
        targets=sidecar.engine_targets(urls, api_key_file, ca_file, cert_file, key_file),
        state=sidecar.state_folder(urls, state),
        policy=policy,
        telemetry=tuple(telemetry or ()),
        events=tuple(events or ()),
        model=model,
        hardware=hardware,
        given=sidecar.given_facts(device_gib, host_gib),
    )
    _run(wanted, live, None if mode is None else Mode(mode), once=once, as_json=as_json, json_lines=json_lines)


def _run(wanted: Wanted, live: LiveSettings, mode: Mode | None, *, once: bool, as_json: bool, json_lines: bool) -> None:
    from autotune.core.clock import SystemClock
    from autotune.daemon.controller import LoopController
    from autotune.daemon.locks import Locks, locks_folder
    from autotune.daemon.loop import Loop
    from autotune.daemon.wiring import build, take_engine_locks, take_locks

    locks = Locks(locks_folder())
    take_locks(locks, wanted)
    clock = SystemClock()
    loop = Loop(build(wanted, live.current.sidecar, clock), live.current, mode)
    controller = LoopController(loop, " + ".join(target.name for target in wanted.targets))
    live.on_change = controller.reload
    try:
        if once:
            _look_twice(controller, live.current.sidecar)
            take_engine_locks(locks, loop.parts.targets)
            _print_status(controller.status(), as_json)
        else:
            _serve(controller, wanted, live, lambda: take_engine_locks(locks, loop.parts.targets), json_lines)
    finally:
        controller.close()
        locks.release()


def _serve(
    controller: LoopController, wanted: Wanted, live: LiveSettings, lock: Callable[[], None], json_lines: bool
) -> None:
    """Rounds, HTTP and the terminal until a signal."""
    import sys
    from contextlib import ExitStack

    from autotune.core.clock import SystemClock
    from autotune.daemon.client import note_address
    from autotune.daemon.dashboard import Dashboard, Output
    from autotune.daemon.http.server import HttpServer
    from autotune.daemon.service import Service
    from autotune.daemon.state import StateFolder

    url: str | None = None
    with ExitStack() as stack:
        if live.current.sidecar.http.enabled:
            with_token = _with_token(live.current.sidecar, StateFolder(wanted.state))
            server = stack.enter_context(HttpServer(controller, with_token))
            url = server.url
            note_address(wanted.state, url)
            typer.echo(f"kv-autotune answers at {url}; state in {wanted.state}", err=True)
        dashboard = stack.enter_context(Dashboard(Output.of(sys.stdout, json_lines=json_lines), url=url))

        def before_round() -> None:
            lock()
            _take_settings(live)
            dashboard.show(controller.status())

        service = Service(controller, lambda: live.current.sidecar.collect.interval_s, SystemClock(), before_round)
        service.listen()
        live.listen()
        service.run()


def _take_settings(live: LiveSettings) -> None:
    problem = live.reload_if_asked()
    if problem is not None:
        typer.echo(f"settings are kept as they were: {problem}", err=True)


def _with_token(settings: SidecarSettings, state: StateFolder) -> SidecarSettings:
    """Settings with the state folder's own token where no other is given."""
    from autotune.daemon.client import TOKEN_VARIABLE

    if settings.http.token_file is not None or os.environ.get(TOKEN_VARIABLE):
        return settings
    state.token()
    http = settings.http.model_copy(update={"token_file": str(state.path / "token")})
    return settings.model_copy(update={"http": http})


def _look_twice(controller: LoopController, settings: SidecarSettings) -> None:
    """Rates need two looks."""
    import threading

    controller.step()
    threading.Event().wait(min(settings.collect.interval_s, 2.0))
    controller.step()


def _print_status(status: DaemonStatus, as_json: bool) -> None:
    from autotune.daemon.status_view import explain

    if as_json:
        typer.echo(status.model_dump_json(by_alias=True, indent=2))
        return
    for target in status.targets:
        state = "answers" if target.alive else "does not answer"
        typer.echo(f"{target.url}: {target.engine or 'unknown engine'} {target.version or ''} {state}".rstrip())
        for source in target.sources:
            if source.error:
                typer.echo(f"  {source.name}: {source.error}")
    typer.echo(explain(status, status.findings))
