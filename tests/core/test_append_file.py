from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.core.append_file import AppendFile


@contextmanager
def room_for(n_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes: what is written across the limit is cut there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_piece_is_whole_or_not_there(tmp_path: Path) -> None:
    """A write that was cut in the middle leaves nothing of its piece, and the next one stands behind the last whole."""
    file = AppendFile(tmp_path / "new" / "file")
    file.append(b"a" * 600)
    with room_for(1_000), pytest.raises(OSError, match="No space left"):
        file.append(b"b" * 600)
    assert file.path.read_bytes() == b"a" * 600
    file.append(b"c" * 3)
    assert file.size_bytes() == 603
    file.close()
    assert file.path.read_bytes() == b"a" * 600 + b"ccc"
