"""Reading on in a folder of segments while the engine writes to it."""

from __future__ import annotations

from pathlib import Path

from autotune.core.telemetry.segments import LENGTH, segments_in
from autotune.core.units import MIB

MAX_FRAME_BYTES = 64 * MIB


class SegmentFollower:
    """Gives the frames of a folder in order, each once, and never a torn one.

    A segment is left for the next one when the next one is there and nothing whole is left in it. Segments that the
    engine deletes before they were read are gone; the numbers of the records tell the reader of the gap.

    Args:
        folder: Where segments lie; it may come into being later.
        from_end: Whether what is there already is passed over, all but the newest segment's header.

    Attributes:
        damaged: Segments that were left because of a length that cannot be.
    """

    def __init__(self, folder: Path, *, from_end: bool = False) -> None:
        self._folder = folder
        self._segment: Path | None = None
        self._offset = 0
        self._skips = from_end
        self.damaged = 0

    def read(self, max_bytes: int) -> list[bytes]:
        """The next frames, up to about so many bytes together; none where nothing new is there.

        Raises:
            OSError: a segment cannot be read.
        """
        frames: list[bytes] = self._pass_over() if self._skips else []
        left_bytes = max_bytes
        while left_bytes > 0:
            later = self._later()  # looked up before reading: what a closed segment still got is read before it is left
            before = self._offset
            if self._segment is not None:
                frames += self._from(self._segment, left_bytes)
            left_bytes -= self._offset - before
            if self._offset == before:
                if later is None:
                    break
                self._segment, self._offset = later, 0
        return frames

    def _pass_over(self) -> list[bytes]:
        """Stand at the end of the newest segment, with the header that it begins with."""
        found = segments_in(self._folder)
        if not found:
            return []
        self._skips, self._segment, self._offset = False, found[-1], 0
        frames = self._from(found[-1], found[-1].stat().st_size)
        return frames[:1]

    def _from(self, segment: Path, max_bytes: int) -> list[bytes]:
        frames: list[bytes] = []
        try:
            file = segment.open("rb")
        except FileNotFoundError:  # the engine made room
            return frames
        with file:
            file.seek(self._offset)
            budget = self._offset + max_bytes
            while self._offset < budget and len(head := file.read(LENGTH.size)) == LENGTH.size:
                (length,) = LENGTH.unpack(head)
                if length > MAX_FRAME_BYTES:
                    self.damaged += 1
                    self._offset = segment.stat().st_size  # nothing behind it can be found again
                    break
                frame = file.read(length)
                if len(frame) < length:
                    break
                frames.append(frame)
                self._offset += LENGTH.size + length
        return frames

    def _later(self) -> Path | None:
        """The segment after the present one, if there is one."""
        name = "" if self._segment is None else self._segment.name
        return next((segment for segment in segments_in(self._folder) if segment.name > name), None)
