"""A file that only grows, each piece whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path


class AppendFile:
    """Appends to one path; opened when first needed, and anew after a fault.

    Args:
        path: File; its folder is made if need be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._size_bytes = 0

    def size_bytes(self) -> int:
        """Bytes in the file.

        Raises:
            OSError: it cannot be opened.
        """
        self._opened()
        return self._size_bytes

    def append(self, piece: bytes) -> None:
        """Add ``piece``; where that fails, what was written of it is taken back.

        Raises:
            OSError: it cannot be written, as on a full disk.
        """
        file = self._opened()
        try:
            if file.write(piece) != len(piece):  # a disk that filled up in the middle
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            with suppress(OSError):  # the fault that matters is raised below
                os.ftruncate(file.fileno(), self._size_bytes)
            self.close()
            raise
        self._size_bytes += len(piece)

    def close(self) -> None:
        """Close the file; nothing is buffered, so nothing is lost."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> FileIO:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = FileIO(self.path, "ab")
            self._size_bytes = os.fstat(file.fileno()).st_size
            self._file = file
        return self._file
