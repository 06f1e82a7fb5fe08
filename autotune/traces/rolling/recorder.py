"""Writes a recording: appended, bounded, and never mixed.

Nothing here waits for Parquet and nothing raises for a full disk: what cannot be written is counted, and the next
request that can be begins an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autotune.core.clock import Clock
from autotune.core.errors import TraceError
from autotune.core.telemetry.wire import EpochCause
from autotune.core.units import MIB
from autotune.traces.rolling.epochs import EpochFacts, RecordedRequest, SegmentName, segments_of
from autotune.traces.rolling.journal import JournalEncoder, JournalWriter
from autotune.traces.rolling.manifest import Manifest, ManifestEpoch
from autotune.traces.rolling.retention import retain

_PIECE_BYTES = 256 * 1024
_MIN_SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class RecordingBounds:
    """How much is kept.

    Attributes:
        max_bytes: Most bytes of all segments together.
        max_age_s: Seconds after which a segment goes.
        segment_bytes: Size at which a segment is closed; at most an eighth of ``max_bytes``.
        segment_s: Seconds after which a segment is closed.
    """

    max_bytes: int = 1024 * MIB
    max_age_s: float = 604_800.0
    segment_bytes: int = 8 * MIB
    segment_s: float = 300.0


class Recorder:
    """Appends requests to a folder of segments.

    ``begin_epoch`` comes before the first ``append`` and whenever what comes must not be joined with what was. What was
    appended is confirmed when ``flush`` returns true: it is on the disk, and no crash takes it back.

    Args:
        folder: Where segments lie; made if need be. One writer at a time.
        clock: Tells the age of segments.
        bounds: How much is kept.

    Attributes:
        lost: Requests that could not be written, or made no sense.
        error: Why the last one could not; ``None`` once it works again.

    Raises:
        OSError: the folder cannot be made or read.
    """

    def __init__(self, folder: Path, clock: Clock, bounds: RecordingBounds | None = None) -> None:
        self._folder = folder
        self._clock = clock
        bounds = bounds or RecordingBounds()
        self._bounds = bounds
        self._segment_bytes = min(bounds.segment_bytes, bounds.max_bytes // _MIN_SEGMENTS)
        folder.mkdir(parents=True, exist_ok=True)
        self._manifest = Manifest.open(folder)
        known = [name.epoch for name in segments_of(folder)]
        self._epoch = max([self._manifest.last_epoch, *known])
        self._facts: EpochFacts | None = None
        self._number = 0
        self._journal: JournalWriter | None = None
        self._encoder = JournalEncoder()
        self._opened_s = 0.0
        self._buffer = bytearray()
        self._buffered = 0
        self._last_s = 0.0
        self._lost_at_flush = 0
        self.lost = 0
        self.error: str | None = None

    @property
    def epoch(self) -> int:
        """Number of the epoch that requests go to now, from 1; 0 before the first."""
        return 0 if self._facts is None else self._epoch

    @property
    def epochs(self) -> tuple[ManifestEpoch, ...]:
        """What is kept, oldest first."""
        return self._manifest.epochs

    def begin_epoch(self, facts: EpochFacts) -> None:
        """Let nobody join what comes with what was."""
        self._end_segment()
        self._facts = facts
        self._epoch += 1
        self._number, self._last_s = 0, 0.0

    def append(self, request: RecordedRequest) -> None:
        """Take one request; it may wait in memory until the next ``flush``.

        Raises:
            TraceError: no epoch was begun.
        """
        if self._facts is None:
            raise TraceError("a recording must know its epoch first", remedy="call begin_epoch before append")
        if request.time_s < self._last_s:  # a wall clock that was set back
            request = replace(request, time_s=self._last_s)
        try:
            piece = self._encoder.request(request)
        except TraceError as problem:
            self.lose(1, str(problem))
            return
        self._last_s = request.time_s
        self._buffer += piece
        self._buffered += 1
        if len(self._buffer) >= min(_PIECE_BYTES, self._segment_bytes):
            self._write()

    def lose(self, n_requests: int = 1, reason: str = "a request made no sense") -> None:
        """Requests are missing that never came here: what comes next is of another epoch."""
        self._end_segment()
        self._lose(n_requests, reason)

    def flush(self) -> bool:
        """Have all that was appended on the disk; close the segment if it is full or old.

        Returns:
            Whether all that was appended since the last flush is there.
        """
        lost_before, is_written = self._lost_at_flush, self._write() and self._sync()
        self._lost_at_flush = self.lost
        if not is_written or self.lost > lost_before:
            return False
        self.error = None
        if self._journal is not None and self._clock.monotonic_s() - self._opened_s >= self._bounds.segment_s:
            self._end_segment()
        return True

    def close(self) -> None:
        """Write what waits and close the segment."""
        self._end_segment()

    def has_work(self) -> bool:
        """Whether closed journals wait to become Parquet."""
        held = None if self._journal is None else self._journal.path
        return any(path.suffix == ".journal" and path != held for path in segments_of(self._folder).values())

    def _write(self) -> bool:
        if not self._buffer:
            return True
        facts = self._facts
        try:
            if self._journal is None and facts is not None:
                self._open(facts)
            if self._journal is not None:
                self._journal.append(bytes(self._buffer))
        except OSError as problem:
            self._lose(self._buffered, str(problem))
            return False
        self._manifest.count(SegmentName(self._epoch, self._number), self._buffered, self._last_s)
        self._buffer.clear()
        self._buffered = 0
        if self._journal is not None and self._journal.size_bytes >= self._segment_bytes:
            return self._end_segment()
        return True

    def _open(self, facts: EpochFacts) -> None:
        name = SegmentName(self._epoch, self._number + 1)
        retain(self._folder, self._bounds.max_bytes - self._segment_bytes, self._bounds.max_age_s, self._clock)
        journal = JournalWriter(self._folder / f"{name}.journal")
        try:
            journal.append(self._encoder.header(facts))
        except OSError:
            journal.close()
            journal.path.unlink(missing_ok=True)
            raise
        self._journal, self._number, self._opened_s = journal, name.number, self._clock.monotonic_s()
        self._manifest.opened(name, facts, segments_of(self._folder))
        self.error = self._manifest.save()

    def _sync(self) -> bool:
        try:
            if self._journal is not None:
                self._journal.sync()
        except OSError as problem:
            self._lose(0, str(problem))
            return False
        return True

    def _end_segment(self) -> bool:
        """Write what waits and let go of the file; whether all of it is on the disk."""
        if not (self._write() and self._sync()):
            return False
        if self._journal is not None:
            self._let_go()
            self.error = self._manifest.save()
        return True

    def _let_go(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        self._encoder = JournalEncoder()  # the next file has words of its own

    def _lose(self, n_requests: int, error: str) -> None:
        """Requests are missing: whatever comes next is of another epoch."""
        self.lost += n_requests
        self.error = error
        self._buffer.clear()
        self._buffered = 0
        self._let_go()
        self._epoch += 1
        self._number = 0
        if self._facts is not None:
            self._facts = replace(self._facts, cause=EpochCause.LOST)
