"""The command ``kv-autotune``: one file per command."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the commands are imported here, not when this package is."""
    from autotune.cli.app import app

    app(prog_name="kv-autotune")
