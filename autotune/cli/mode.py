"""``kv-autotune mode``: a sidecar may do more or less."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json


def mode(
    url: sidecar.SidecarUrl,
    wanted: Annotated[
        str | None, typer.Argument(metavar="observe|recommend|canary|auto|freeze", help="The new mode; shown if none.")
    ] = None,
    state: sidecar.State = None,
    token_file: sidecar.TokenFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Show how much a running sidecar may do, or change it."""
    client = sidecar.sidecar_client(url, state, token_file)
    if wanted is None:
        status = client.read("/v1/status")
        done = {key: status.get(key) for key in ("mode", "phase", "live_hash", "hands_off")}
    else:
        done = client.order("/v1/mode", {"mode": wanted})
    if as_json:
        print_json(done)
    else:
        typer.echo(str(done.get("mode")))
