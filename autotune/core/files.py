"""Writing a file so that a reader sees the old one or the new one, never a part of it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, text: str) -> None:
    """Give a file this text, in UTF-8 and with the line ends as they are; see :func:`replaced_atomically`.

    Raises:
        OSError: it cannot be written; the old file, if any, is untouched.
    """
    with replaced_atomically(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def replaced_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write bytes to, which takes the name ``path`` in one step when the block ends without an error.

    The bytes go to a temporary file in the same folder and reach the disk first. A symbolic link stays one: the file
    that it points to is replaced.

    Raises:
        OSError: it cannot be written; the old file, if any, is untouched.
    """
    target = _end_of_links(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    # Made with the permissions of any new file, not those of a private temporary one: whoever reads it often runs as
    # another user than the tuner.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _end_of_links(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as problem:  # what Python before 3.13 says about links that lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from problem


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, or that one is gone.

    Raises:
        OSError: the folder cannot be read.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
