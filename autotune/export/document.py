"""Policy document → YAML that explains itself, and its safe way onto a disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.errors import PolicyError
from autotune.core.policy import PolicyDocument

_HEADER = """\
Policy of kv-autotune: which blocks of the KV cache stay on the device, go to the host, or are given up.
It changes only where KV lies, never its values. Times are seconds, sizes are bytes, 1 GiB = 2^30 bytes.
A turnover is the time in which a tier replaces its whole content."""


def render(document: PolicyDocument) -> str:
    """The document as commented YAML; the same document always gives the same bytes."""
    return to_commented_yaml(document, _HEADER)


def save(document: PolicyDocument, path: Path) -> None:
    """Write a document so that a reader sees the old file or the new one, never a part of it.

    The text goes to a temporary file in the same folder, reaches the disk, and takes the name in one step. A symbolic
    link stays one: the file that it points to is replaced.

    Raises:
        PolicyError: the file cannot be written; the old one, if any, is untouched.
    """
    try:
        _replace(path.resolve(), render(document).encode("utf-8"))
    except (OSError, RuntimeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise PolicyError(f"{path} must be writable", got=reason) from problem


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    # Made with the permissions of any new file, not those of a private temporary one: the engine often runs as
    # another user than the tuner.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
