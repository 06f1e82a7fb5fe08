"""Reading ``.zst`` files so that a truncated one is noticed and a hostile one stays small in memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from autotune.core.errors import MissingExtraError

# A zstd block of 4 bytes can stand for 128 KiB, so input is fed in pieces that cannot grow beyond some 32 MiB.
_FEED_BYTES = 1024


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of a file of zstd frames.

    ``zstandard``'s own reader takes a stream that ends inside a frame for a whole one; this one raises.

    Args:
        file: The compressed file.

    Raises:
        MissingExtraError: the package zstandard is not installed.
        OSError: the file cannot be opened, or (when reading) a frame is damaged.
        EOFError: when reading: the file ends inside a frame.
    """

    def __init__(self, file: Path) -> None:
        try:
            import zstandard
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "reading .zst files needs the package zstandard",
                got="it is not installed",
                remedy="pip install 'kv-autotune[tuner]', or recompress the file with gzip",
            ) from error
        self._error = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor()
        self._source = file.open("rb")
        self._frame: Any = None
        self._compressed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def close(self) -> None:
        """Close the compressed file as well."""
        self._source.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        """Fill ``buffer`` from the front; 0 at the end of the file."""
        while not self._ready and self._feed():
            pass
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _feed(self) -> bool:
        compressed = self._compressed or self._source.read(_FEED_BYTES)
        if not compressed:
            if self._frame is not None:
                raise EOFError("the file ends inside a zstd frame")
            return False
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(compressed))
        except self._error as error:
            raise OSError(str(error)) from error
        self._compressed = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return True
