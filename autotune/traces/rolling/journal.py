"""The file that rows are appended to, each whole or not at all, and reading it after whatever happened.

A journal is eight bytes of magic and a row of frames: length (4 bytes), CRC-32 (4 bytes), and so many bytes of
content; numbers are little-endian. Content begins with its kind: the epoch's facts as JSON (first and once), a word
that requests refer to by its number, or a request, of two forms: without hints of its client and with them. A frame
that is cut or whose sum differs ends what can be read.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

from autotune.core.errors import TraceError
from autotune.core.files import sync_folder
from autotune.core.trace_hints import NO_HINTS, RequestHints, TraceHints
from autotune.traces.rolling.epochs import EpochFacts, RecordedRequest, dump_facts

MAGIC = b"KVAJRNL1"
OPENING = ".opening"
FACTS, WORD, REQUEST, HINTED = b"F", b"W", b"R", b"H"
FRAME = struct.Struct("<II")
ROW = struct.Struct("<diiqiiiI")  # time, input, output, session, stop word, device blocks, host blocks, blocks
HINTS = struct.Struct("<idi")  # session end, expected idle seconds, priority; after the row of a hinted request
_WORD_FIELD, _WORD_OFFSET = struct.Struct("<i"), struct.calcsize("<diiq")
_MAX_WORDS = 16
_MAX_WORD_CHARS = 32
_OTHER_WORD = "other"
_INT32_MAX = 2**31 - 1
MAX_FRAME_BYTES = 64 * 2**20


class JournalEncoder:
    """Turns the requests of one journal into frames."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}

    def header(self, facts: EpochFacts) -> bytes:
        """What a journal begins with."""
        return MAGIC + framed(FACTS + dump_facts(facts))

    def request(self, request: RecordedRequest) -> bytes:
        """One request, after its stop word where that is new.

        Raises:
            TraceError: a figure is out of range.
        """
        try:
            if not math.isfinite(request.time_s) or request.time_s < 0.0:
                raise ValueError(f"time {request.time_s}")
            ids = array("Q", request.block_ids)
            row = bytearray(ROW.size)
            ROW.pack_into(
                row,
                0,
                request.time_s,
                _count(request.input_tokens),
                _count(request.output_tokens),
                request.session,
                0,
                _count(request.device_blocks),
                _count(request.host_blocks),
                len(ids),
            )
            hints = b"" if request.hints == NO_HINTS else HINTS.pack(*_hints(request.hints))
        except (struct.error, OverflowError, ValueError, TypeError) as problem:
            raise TraceError("a recorded request must be of numbers in range", got=str(problem)[:100]) from problem
        word_frame, word = self._word(request.stop_reason)  # only now: a word that is numbered must be written
        _WORD_FIELD.pack_into(row, _WORD_OFFSET, word)
        return word_frame + framed((HINTED if hints else REQUEST) + bytes(row) + hints + ids.tobytes())

    def _word(self, reason: str) -> tuple[bytes, int]:
        if not reason:
            return b"", -1
        word = reason if len(reason) <= _MAX_WORD_CHARS and reason.isprintable() else _OTHER_WORD
        if word not in self._words and len(self._words) >= _MAX_WORDS:
            word = _OTHER_WORD
        if word in self._words:
            return b"", self._words[word]
        self._words[word] = len(self._words)
        return framed(WORD + word.encode("utf-8", "replace")), self._words[word]


class JournalWriter:
    """An open journal. While it is open nobody compacts it: the lock on the file goes with the process.

    Args:
        path: File; it must not exist.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        # It gets its name when it is locked, so that nobody takes it for one whose writer is gone.
        nameless = path.with_name(f".{path.name}{OPENING}")
        nameless.unlink(missing_ok=True)
        self._file = FileIO(nameless, "xb")
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX)
            path.hardlink_to(nameless)
        except OSError:
            self._file.close()
            raise
        finally:
            nameless.unlink(missing_ok=True)
        sync_folder(path.parent)

    def append(self, piece: bytes) -> None:
        """Add whole frames; where that fails, what was written of them is taken back.

        Raises:
            OSError: they cannot be written.
        """
        try:
            if self._file.write(piece) != len(piece):  # a disk that filled up in the middle
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            with suppress(OSError):  # the fault that matters is raised below
                os.ftruncate(self._file.fileno(), self.size_bytes)
                os.lseek(self._file.fileno(), self.size_bytes, os.SEEK_SET)
            raise
        self.size_bytes += len(piece)

    def sync(self) -> None:
        """Have it on the disk.

        Raises:
            OSError: it cannot be.
        """
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it, which lets others compact it."""
        self._file.close()


def is_being_written(path: Path) -> bool:
    """Whether a writer holds a journal.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in {errno.EAGAIN, errno.EACCES}:
                return True
            raise
    return False


def framed(content: bytes) -> bytes:
    """Content behind its length and sum."""
    return FRAME.pack(len(content), zlib.crc32(content)) + content


def frames(content: bytes) -> Iterator[bytes]:
    """The content of the frames in a journal, as far as they are whole."""
    if not content.startswith(MAGIC):
        return
    view, place = memoryview(content), len(MAGIC)
    while place + FRAME.size <= len(content):
        length, total = FRAME.unpack_from(content, place)
        place += FRAME.size
        if not 0 < length <= MAX_FRAME_BYTES or place + length > len(content):
            return
        piece = bytes(view[place : place + length])
        if zlib.crc32(piece) != total:
            return
        yield piece
        place += length


def _hints(hints: RequestHints) -> RequestHints:
    faults = TraceHints.of([hints]).faults
    if faults:
        raise ValueError(faults[0])
    return hints


def _count(value: int) -> int:
    if not 0 <= value <= _INT32_MAX:
        raise ValueError(f"count {value}")
    return value
