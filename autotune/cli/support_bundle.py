"""``kv-autotune support-bundle``: what helps to find a fault from afar, in one file without secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json
from autotune.core.units import MIB

STATUS_NAME = "status.json"


def support_bundle(
    state: Annotated[Path, typer.Option("--state", metavar="DIR", help="State folder of the sidecar.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.tar.gz", help="File to write.")],
    settings: Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="Its settings file.")] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The sidecar, if it runs; adds what it shows now.")
    ] = None,
    token_file: sidecar.TokenFile = None,
    recording_mib: Annotated[
        int, typer.Option("--recording-mib", min=0, help="Most MiB of the recording, newest first; 0 = none of it.")
    ] = 32,
    as_json: options.AsJson = False,
) -> None:
    """Write config, versions, audit log and recent telemetry into one file: no tokens, no prompts, no secrets."""
    from autotune.core.clock import SystemClock
    from autotune.daemon.bundle import BundleSource, write_bundle
    from autotune.daemon.redact import Redactor, known_secrets
    from autotune.daemon.settings import SettingsSource

    loaded = SettingsSource(settings, os.environ).load()
    extra = {} if url is None else {STATUS_NAME: _status(url, state, token_file)}
    token = loaded.sidecar.http.token_file
    named = [Path(token)] if token else []
    secrets = known_secrets(os.environ, [state / "token", *named, *([token_file] if token_file else [])])
    source = BundleSource(state, loaded, os.environ, extra, recording_mib * MIB)
    contents = write_bundle(source, out, Redactor(secrets), SystemClock())
    if as_json:
        print_json({"path": out, **contents.model_dump(mode="json")})
        return
    for entry in contents.files:
        typer.echo(f"{entry.size_bytes:>12,}  {entry.name}")
    for line in contents.left_out:
        typer.echo(f"    left out  {line}")
    typer.echo(f"{out}: look through it before you send it to anybody")


def _status(url: str, state: Path, token_file: Path | None) -> str:
    import json

    client = sidecar.sidecar_client(url, state, token_file)
    return json.dumps(client.read("/v1/status"), indent=1) + "\n"
