"""``kv-autotune detach``: leave an engine on its own settings, with nothing of ours where it looks."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json

_LOOK_S = 0.5
_NOT_CONFIRMED = 1


def detach(
    urls: sidecar.Urls,
    policy: sidecar.PolicyFile = None,
    state: sidecar.State = None,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=0.0, help="Seconds to wait for the engine to take its own rule up.")
    ] = 10.0,
    settings: Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="Settings in YAML.")] = None,
    api_key_file: sidecar.ApiKeyFile = None,
    ca_file: sidecar.CaFile = None,
    cert_file: sidecar.CertFile = None,
    key_file: sidecar.KeyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Put the engine's own rule in force and take the published policy away. Stop the sidecar first."""
    from autotune.core.clock import SystemClock
    from autotune.daemon.detaching import Detached, Detaching
    from autotune.daemon.locks import Locks, locks_folder
    from autotune.daemon.loop import Loop
    from autotune.daemon.settings import SettingsSource
    from autotune.daemon.wiring import Wanted, build, take_locks

    wanted = Wanted(
        targets=sidecar.engine_targets(urls, api_key_file, ca_file, cert_file, key_file),
        state=sidecar.state_folder(urls, state),
        policy=policy,
    )
    locks = Locks(locks_folder())
    take_locks(locks, wanted)
    clock = SystemClock()
    loaded = SettingsSource(settings, os.environ).load()
    observing = loaded.sidecar.model_copy(update={"mode": "observe"})
    loop = Loop(build(wanted, observing, clock), loaded.model_copy(update={"sidecar": observing}))
    detaching = Detaching(loop)
    end_s = clock.monotonic_s() + wait_s
    result: Detached | None = detaching.begin()
    while result is None:
        result = detaching.confirm()
        if result is None and clock.monotonic_s() >= end_s:
            result = detaching.give_up()
        elif result is None:
            threading.Event().wait(_LOOK_S)
    loop.close()
    locks.release()
    if as_json:
        print_json(result)
    else:
        typer.echo(result.text)
    if not result.done:
        raise typer.Exit(_NOT_CONFIRMED)
