"""One sidecar per engine: locks that end with the process, whatever ends it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from autotune.core.errors import ConfigError


def locks_folder() -> Path:
    """Where all sidecars of this user keep their locks, wherever their state lies."""
    return state_home() / "locks"


def state_home() -> Path:
    """``$XDG_STATE_HOME/kv-autotune``, or what the standard says where that is not set."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "kv-autotune"


class Locks:
    """Names that belong to this process alone while it lives.

    Args:
        folder: Where the lock files lie; see :func:`locks_folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def take(self, name: str, what: str) -> None:
        """Take a name; one that is held already is kept.

        Args:
            name: Any text.
            what: What it stands for, for the message.

        Raises:
            ConfigError: another process has it, or no lock file can be made.
        """
        if name in self._held:
            return
        path = self._folder / (hashlib.sha256(name.encode("utf-8")).hexdigest()[:32] + ".lock")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise ConfigError(f"{path} must be a file that can be written", got=problem.strerror) from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise ConfigError(
                f"one sidecar only may be attached to {what}",
                got=f"a second one; process {holder or 'unknown'} is attached",
                remedy="stop the other one first, or ask it through its own HTTP interface",
            ) from None
        _note_holder(descriptor)
        self._held[name] = descriptor

    def release(self) -> None:
        """Give all names back."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def _note_holder(descriptor: int) -> None:
    """Say who has it; on a full disk the lock holds all the same."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
    except OSError:
        return
