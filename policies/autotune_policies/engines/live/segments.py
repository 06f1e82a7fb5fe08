"""Records in files: a folder of segments of bounded size, of which the oldest go when the bound is reached.

A segment is a row of frames, each behind its length as four bytes, most significant first. Names sort by time:
``records-20260131T120000Z-1a2b3c4d-000001.kva``.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Iterator
from pathlib import Path

from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune_policies.engines.live.append_file import AppendFile

LENGTH = struct.Struct(">I")
_NAME = re.compile(r"records-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-[0-9]{6,}\.kva")
_SEGMENTS = 8


class SegmentWriter:
    """Writes frames to segments of an eighth of the bound each.

    Args:
        folder: Where segments lie; made if need be. Other files in it are left alone.
        max_bytes: Most bytes that all segments in the folder take together, those of earlier runs included.
        clock: Tells the time that names begin with.
    """

    def __init__(self, folder: Path, max_bytes: int, clock: Clock) -> None:
        self._folder = folder
        self._segment_bytes = max_bytes // _SEGMENTS
        self._run = f"{clock.utc_now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        self._number = 0
        self._file: AppendFile | None = None

    def needs_header(self, frame_bytes: int) -> bool:
        """Whether the next frame begins a segment."""
        file = self._file
        if file is not None and file.size_bytes() + LENGTH.size + frame_bytes <= self._segment_bytes:
            return False
        self._begin_segment()
        return True

    def write(self, frame: bytes) -> None:
        """Append one frame, whole or not at all.

        Raises:
            OSError: it cannot be written.
            ConfigError: it is larger than a segment.
        """
        if LENGTH.size + len(frame) > self._segment_bytes:
            raise ConfigError(
                f"a record takes at most {self._segment_bytes} bytes",
                got=len(frame),
                remedy=f"give telemetry_max_bytes {_SEGMENTS} times as much",
            )
        file = self._file or self._begin_segment()
        file.append(LENGTH.pack(len(frame)) + frame)

    def close(self) -> None:
        """Close the segment."""
        if self._file is not None:
            self._file.close()

    def _begin_segment(self) -> AppendFile:
        self.close()
        kept = segments_in(self._folder)
        for old in kept[: max(0, len(kept) - _SEGMENTS + 1)]:
            old.unlink(missing_ok=True)
        self._file = AppendFile(self._folder / f"records-{self._run}-{self._number:06}.kva")
        self._number += 1
        return self._file


def segments_in(folder: Path) -> list[Path]:
    """The segments of a folder, oldest first; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def frames_in(segment: Path) -> Iterator[bytes]:
    """The frames of one segment; a torn one at its end, as after a crash, ends it."""
    with segment.open("rb") as file:
        while len(length := file.read(LENGTH.size)) == LENGTH.size:
            frame = file.read(LENGTH.unpack(length)[0])
            if len(frame) < LENGTH.unpack(length)[0]:
                return
            yield frame
