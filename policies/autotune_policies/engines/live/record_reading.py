"""Reading records back: frames from segment files or a socket as the project's own AccessRecords.

An epoch of a reader ends where the writer's ends, and also where frames are missing: a lost segment, a torn one, a
message that a slow subscriber never got. Its epochs are numbered from 0 in the order in which they are met.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.errors import MissingExtraError, TraceError
from autotune.core.types import Tier
from autotune_policies.engines.live.record_stream import (
    ACCESS,
    FORMAT_VERSION,
    HEADER,
    NO_TIER,
    TRANSFER,
    StreamFacts,
)
from autotune_policies.engines.live.record_values import Direction
from autotune_policies.engines.live.segments import frames_in, segments_in


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """One finished copy, as it was told.

    Attributes:
        time_s: Seconds since the start of the epoch.
        epoch: As in :class:`autotune.core.access.AccessRecord`.
        direction: Which way.
        moved_bytes: Bytes copied.
        seconds: How long the copy took.
    """

    time_s: float
    epoch: int
    direction: Direction
    moved_bytes: int
    seconds: float


class FrameReader:
    """Turns frames, in the order of their coming, into records.

    Args:
        group: KV-cache group whose runs are wanted; 0 is the only one of most models.

    Attributes:
        facts: What the last header said about the engine; ``None`` before the first.
        skipped: Records that came before a header of their epoch and cannot be placed.
    """

    def __init__(self, group: int = 0) -> None:
        self._decode = _decoder()
        self._group = group
        self._stream = ""
        self._stream_epoch = -1
        self._epoch = -1
        self._next_sequence = 0
        self.facts: StreamFacts | None = None
        self.skipped = 0

    def read(self, frame: bytes) -> list[AccessRecord | TransferRecord]:
        """The records in one frame; none in a header or in one of an epoch whose header was missed.

        Raises:
            TraceError: it is no frame of this format.
        """
        try:
            fields = self._decode(frame)
            kind, sequence, stream_epoch = int(fields[0]), int(fields[1]), int(fields[2])
            if kind == HEADER:
                self._enter(sequence, stream_epoch, fields)
                return []
            if not self._follows(sequence, stream_epoch):
                return []
            return list(self._records(kind, fields))
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as problem:
            raise TraceError("a telemetry frame must be of the documented form", got=str(problem)[:100]) from problem

    def _enter(self, sequence: int, stream_epoch: int, fields: Any) -> None:
        version, stream, _, *facts = fields[3:]
        if version != FORMAT_VERSION:
            raise TraceError(f"this reader knows version {FORMAT_VERSION} of the telemetry", got=version)
        is_same = (stream, stream_epoch) == (self._stream, self._stream_epoch)
        if not (is_same and sequence == self._next_sequence):
            self._epoch += 1
        self._stream, self._stream_epoch, self._next_sequence = stream, stream_epoch, sequence
        self.facts = StreamFacts(*facts)

    def _follows(self, sequence: int, stream_epoch: int) -> bool:
        """Whether a record can be placed; a gap before it begins a new epoch."""
        if self.facts is None or stream_epoch != self._stream_epoch:
            self.skipped += 1
            return False
        if sequence != self._next_sequence:
            self._epoch += 1
        self._next_sequence = sequence + 1
        return True

    def _records(self, kind: int, fields: Any) -> Iterator[AccessRecord | TransferRecord]:
        time_s = float(fields[3])
        if kind == TRANSFER:
            direction, moved_bytes, seconds = fields[4:]
            yield TransferRecord(time_s, self._epoch, Direction(direction), int(moved_bytes), float(seconds))
        elif kind == ACCESS:
            request, chain, runs = fields[4:]
            yield from (self._access(time_s, request, chain, run) for run in runs if run[0] == self._group)
        else:
            raise ValueError(f"kind {kind}")

    def _access(self, time_s: float, request: int, chain: int, run: Any) -> AccessRecord:
        _, first_depth, block_ids, tokens, tier, moved_bytes, seconds, features = run
        return AccessRecord(
            time_s=time_s,
            epoch=self._epoch,
            request=request,
            chain=chain,
            block_ids=tuple(block_ids),
            first_depth_blocks=first_depth,
            tokens=tokens,
            tier=None if tier == NO_TIER else Tier(tier),
            moved_bytes=moved_bytes,
            seconds=seconds,
            features=AccessFeatures(*features),
        )


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


def _decoder() -> Any:
    try:
        import msgspec
    except ImportError as problem:
        raise MissingExtraError(
            "reading telemetry needs the package msgspec", remedy="pip install msgspec"
        ) from problem
    return msgspec.msgpack.Decoder().decode
