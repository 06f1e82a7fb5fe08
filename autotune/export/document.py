"""Policy document → YAML that explains itself, and its safe way onto a disk."""

from __future__ import annotations

from pathlib import Path

from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.errors import PolicyError
from autotune.core.files import write_atomically
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
        write_atomically(path, render(document))
    except OSError as problem:
        raise PolicyError(f"{path} must be writable", got=problem.strerror or problem) from problem
