"""``kv-autotune export``: the native settings with which an engine obeys a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json
from autotune.export.renderer import Flavor

if TYPE_CHECKING:
    from autotune.export.renderer import Export


def export(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="Policy file.")],
    engine: Annotated[str, typer.Option("--engine", metavar="NAME", help="Engine, such as vllm or sglang.")],
    flavor: Annotated[
        Flavor | None,
        typer.Option(
            "--flavor", help="plugin: all that ours obeys, live, where there is one; stock: the engine's own."
        ),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option("--block-size", metavar="TOKENS", help="Tokens per block of the engine, where known.")
    ] = None,
    ranks: Annotated[
        int, typer.Option("--ranks", metavar="N", help="Tensor-parallel times pipeline-parallel size of the engine.")
    ] = 1,
    disk_dir: Annotated[
        Path | None, typer.Option("--disk-dir", metavar="DIR", help="Folder of the disk tier on the engine's machine.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", help="Sequences per batch, for offline engines.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the settings with which an engine obeys a policy: ready to paste on stdout, notes on stderr."""
    from autotune.core.policy import load
    from autotune.export.renderer import export_policy

    rendered = export_policy(
        load(policy),
        policy,
        engine,
        flavor=flavor,
        block_tokens=block_size,
        ranks=ranks,
        disk_dir=disk_dir,
        batch_size=batch_size,
    )
    if as_json:
        print_json(as_object(rendered))
        return
    typer.echo(rendered.text)
    for note in rendered.notes:
        typer.echo(f"note: {note}", err=True)


def as_object(rendered: Export) -> dict[str, object]:
    """The JSON object of an export."""
    return {
        "engine": rendered.engine,
        "flavor": rendered.flavor,
        "option": rendered.option,
        "settings": rendered.settings,
        "text": rendered.text,
        "notes": rendered.notes,
    }
