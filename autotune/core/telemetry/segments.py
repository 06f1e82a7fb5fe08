"""Records in a folder of segment files, as an engine's plug-in leaves them.

A segment is a row of frames, each behind its length as four bytes, most significant first. Names sort by time:
``records-20260131T120000Z-1a2b3c4d-000001.kva``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from autotune.core.access import AccessRecord
from autotune.core.telemetry.reading import FrameReader
from autotune.core.telemetry.wire import TransferRecord

LENGTH = struct.Struct(">I")
_NAME = re.compile(r"records-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}-[0-9]{6,}\.kva")


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


def read_segments(folder: Path, group: int = 0) -> Iterator[AccessRecord]:
    """The accesses in a folder of segments, oldest first.

    Args:
        folder: As given to ``telemetry`` as ``file:FOLDER``.
        group: KV-cache group whose runs are wanted.

    Raises:
        TraceError: a frame is not of the documented form.
    """
    return (record for record in _read(folder, group) if isinstance(record, AccessRecord))


def read_transfers(folder: Path) -> Iterator[TransferRecord]:
    """The finished copies in a folder of segments, oldest first.

    Raises:
        TraceError: a frame is not of the documented form.
    """
    return (record for record in _read(folder, 0) if isinstance(record, TransferRecord))


def _read(folder: Path, group: int) -> Iterator[AccessRecord | TransferRecord]:
    reader = FrameReader(group)
    for segment in segments_in(folder):
        for frame in frames_in(segment):
            yield from reader.read(frame)
