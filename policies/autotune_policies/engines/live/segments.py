"""Records in files: a folder of segments of bounded size, of which the oldest go when the bound is reached.

:mod:`autotune.core.telemetry.segments` describes them.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from autotune.core.append_file import AppendFile
from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune.core.telemetry.segments import LENGTH, segments_in

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
