"""``kv-autotune rollback``: a sidecar puts the policy before in force."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json


def rollback(
    url: sidecar.SidecarUrl,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the audit log.")] = "asked for by a person",
    state: sidecar.State = None,
    token_file: sidecar.TokenFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a running sidecar take the policy on trial back, or go back to the policy before the last trial."""
    done = sidecar.sidecar_client(url, state, token_file).order("/v1/rollback", {"reason": reason})
    if as_json:
        print_json(done)
    else:
        typer.echo(f"rolled back; in force: {done.get('live_hash') or 'nothing of ours'}")
