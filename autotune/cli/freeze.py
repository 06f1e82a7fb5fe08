"""``kv-autotune freeze``: a sidecar changes nothing any more."""

from __future__ import annotations

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json


def freeze(
    url: sidecar.SidecarUrl,
    state: sidecar.State = None,
    token_file: sidecar.TokenFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a running sidecar change nothing any more; what is on trial is taken back."""
    done = sidecar.sidecar_client(url, state, token_file).order("/v1/freeze", {})
    if as_json:
        print_json(done)
    else:
        typer.echo(f"frozen; in force: {done.get('live_hash') or 'nothing of ours'}")
