"""``kv-autotune diff``: what changes from one policy to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json, stdout_console
from autotune.core.commented_yaml import scalar

if TYPE_CHECKING:
    from autotune.export import Change


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Policy file to start from.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Policy file to arrive at.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what changes from one policy to another, value by value; comments and layout do not count."""
    from autotune.core.policy import load
    from autotune.export import diff as changes_between

    changes = changes_between(load(before), load(after))
    if as_json:
        print_json({"identical": not changes, "changes": changes})
    elif changes:
        _print(before, after, changes)
    else:
        typer.echo(f"{before} and {after} hold the same values")


def _print(before: Path, after: Path, changes: list[Change]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("value", no_wrap=True)
    table.add_column("before", overflow="fold")
    table.add_column("after", overflow="fold")
    for change in changes:
        # Texts, not strings: square brackets in a path are not markup.
        table.add_row(*map(Text, (change.path, *_shown(change))))
    console = stdout_console()
    count = f"{len(changes):,} value{'' if len(changes) == 1 else 's'} changed"
    console.print(f"{count} from {before} to {after}", markup=False, highlight=False)
    console.print(table)


def _shown(change: Change) -> tuple[str, str]:
    """Both values as text, fractions to six figures where these tell them apart."""
    short = tuple(f"{value:.6g}" if isinstance(value, float) else None for value in (change.before, change.after))
    full = (scalar(change.before), scalar(change.after))
    if short[0] == short[1]:
        return full
    return short[0] or full[0], short[1] or full[1]
