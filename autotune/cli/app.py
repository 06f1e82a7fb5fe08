"""The application ``kv-autotune``, put together from the modules beside this one.

A module of this package is a command: it holds either a function of its own name (``simulate.py``: ``def simulate``)
or, for a command with subcommands, a ``typer.Typer`` called ``app``. Nothing has to be registered here.

Typer reads the signatures of all commands to print any help, so command modules import heavy packages (Numba, Optuna,
scikit-learn, plotly, pyarrow) inside the function's body.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.common import CommandGroup

_NOT_COMMANDS = {"app", "common"}


def build() -> typer.Typer:
    """The application with all its commands, in order of name."""
    application = typer.Typer(
        cls=CommandGroup,
        name="kv-autotune",
        help="Learns where the KV cache of an LLM server should lie: keep, offload or evict.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    application.callback()(_root)
    for name in command_names():
        module = import_module(f"autotune.cli.{name}")
        if hasattr(module, "app"):
            application.add_typer(module.app, name=name)
        else:
            application.command(name.replace("_", "-"))(getattr(module, name))
    return application


def command_names() -> list[str]:
    """Names of the command modules in this package, sorted."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in modules if m.name not in _NOT_COMMANDS and not m.name.startswith("_"))


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("kv-autotune"))
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the application itself."""


app = build()
