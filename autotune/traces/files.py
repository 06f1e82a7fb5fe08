"""Bytes of trace files: globs, transparent decompression, bounded reading, and the hash over what was read."""

from __future__ import annotations

import glob
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

from autotune.core.errors import TraceError
from autotune.core.units import MIB
from autotune.traces.zstd import ZstdStream

MAX_LINE_BYTES = 16 * MIB
MAX_DOCUMENT_BYTES = 256 * MIB
COMPRESSED_SUFFIXES = (".gz", ".zst")
_SKIP_CHUNK_BYTES = MIB


class Digest(Protocol):
    """What a ``hashlib`` hash offers."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes in."""

    def hexdigest(self) -> str:
        """Hash of all bytes so far, as hexadecimal text."""


class TooLongError(Exception):
    """A line or a document is longer than its bound; what is left of the line has not been read yet."""


class UnreadableError(Exception):
    """The file's bytes stop making sense, for example in a truncated gzip stream."""


def expand(paths: Sequence[str]) -> list[Path]:
    """The files that paths and globs name, in the order given and sorted within one glob.

    Raises:
        TraceError: nothing matches, a folder was given, or a file is named twice.
    """
    files = [file for path in paths for file in _matches(path)]
    if not files:
        raise TraceError("a trace needs at least one file", got="no path", remedy="give it as FORMAT:PATH")
    if len(set(files)) < len(files):
        twice = next(file for file in files if files.count(file) > 1)
        raise TraceError("each file may be given only once", got=f"{twice} twice", remedy="check for overlapping globs")
    return files


def stem(file: Path) -> str:
    """File name without a compression suffix."""
    return file.name.removesuffix(file.suffix) if file.suffix in COMPRESSED_SUFFIXES else file.name


def read_lines(file: Path, digest: Digest) -> Iterator[bytes | None]:
    """Lines of a file one by one, without their line ends; None stands for a line longer than ``MAX_LINE_BYTES``.

    A line beyond the bound is not held in memory: its rest is passed over only when the next line is asked for.

    Raises:
        UnreadableError: the compressed stream is damaged or ends early.
        TraceError: the file cannot be opened.
    """
    with _opened(file) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            digest.update(line)
            if len(line) <= MAX_LINE_BYTES:
                yield line.rstrip(b"\r\n")
                continue
            yield None
            while not line.endswith(b"\n") and (line := stream.readline(_SKIP_CHUNK_BYTES)):
                digest.update(line)


def read_document(file: Path, digest: Digest) -> bytes:
    """All bytes of a file.

    Raises:
        TooLongError: the file holds more than ``MAX_DOCUMENT_BYTES``.
        UnreadableError: the compressed stream is damaged or ends early.
        TraceError: the file cannot be opened.
    """
    with _opened(file) as stream:
        content = stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise TooLongError
    digest.update(content)
    return content


def _matches(path: str) -> list[Path]:
    given = Path(path).expanduser()
    try:
        if given.is_file():
            return [given]
        if given.is_dir():
            raise TraceError(
                "a trace of this format is made of files", got=f"the folder {path}", remedy=f"try '{path}/*'"
            )
        found = sorted(Path(name) for name in glob.glob(str(given), recursive=True))  # noqa: PTH207 absolute globs
    except (OSError, ValueError) as error:
        raise TraceError(
            "a trace must be a readable file", got=f"{path!r}: {error}", remedy="check the path"
        ) from error
    files = [name for name in found if name.is_file()]
    if not files:
        raise TraceError(
            "a path or glob must match at least one file", got=f"no match for {path!r}", remedy="check the path"
        )
    return files


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    try:
        stream = _decompressed(file)
    except OSError as error:
        raise TraceError("a trace must be a readable file", got=str(error), remedy="check the path") from error
    with stream:
        try:
            yield stream
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableError(str(error)) from error


def _decompressed(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(file, "rb"))
    if file.suffix == ".zst":
        return cast(IO[bytes], io.BufferedReader(ZstdStream(file)))
    return file.open("rb")
