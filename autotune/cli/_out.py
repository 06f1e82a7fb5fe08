"""Folders that a command writes to, checked before the long work begins."""

from __future__ import annotations

import tempfile
from pathlib import Path

from autotune.core.errors import ConfigError


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to; nothing stays behind.

    Raises:
        ConfigError: it cannot.
    """
    try:
        nearest = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=nearest):
            return
    except OSError as problem:
        raise unwritable(folder, problem) from problem


def unwritable(folder: Path, problem: OSError) -> ConfigError:
    """What to say about a folder that cannot be written to."""
    return ConfigError(
        f"{folder} must be a folder that can be made and written to",
        got=problem.strerror or problem,
        remedy="give another with --out",
    )
