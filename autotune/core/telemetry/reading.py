"""Frames, in the order of their coming, as records.

An epoch of a reader ends where the writer's ends, and also where frames are missing: a lost segment, a torn one, a
message that a slow subscriber never got. Its epochs are numbered from 0 in the order in which they are met.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.errors import MissingExtraError, TraceError
from autotune.core.telemetry.wire import (
    ACCESS,
    FORMAT_VERSION,
    HEADER,
    NO_TIER,
    TRANSFER,
    Direction,
    EpochCause,
    EpochStart,
    StreamFacts,
    StreamPosition,
    TransferRecord,
)
from autotune.core.types import Tier

_MAX_TEXT = 200
_N_FEATURES = len(fields(AccessFeatures))


class FrameReader:
    """Turns frames into records.

    Args:
        group: KV-cache group whose runs are wanted; 0 is the only one of most models.
        resume: Where an earlier reader stopped: records of that stream before it are passed over.

    Attributes:
        facts: What the last header said about the engine; ``None`` before the first.
        skipped: Records that came before a header of their epoch and cannot be placed.
        lost: Records that are known to be missing, by the gaps between the numbers of those that came.

    Raises:
        MissingExtraError: this environment has no msgspec.
    """

    def __init__(self, group: int = 0, resume: StreamPosition | None = None) -> None:
        self._decode = _decoder()
        self._group = group
        self._resume = resume
        self._stream = ""
        self._start_utc = ""
        self._stream_epoch = -1
        self._epoch = -1
        self._cause = EpochCause.ATTACHED
        self._next_sequence = 0
        self.facts: StreamFacts | None = None
        self.skipped = 0
        self.lost = 0

    @property
    def epoch_start(self) -> EpochStart | None:
        """The epoch that the last record, or the next one, belongs to; ``None`` before the first header."""
        if self.facts is None:
            return None
        return EpochStart(self._epoch, self._cause, self._stream, self._start_utc, self.facts)

    @property
    def epoch(self) -> int:
        """Number of that epoch, -1 before the first."""
        return self._epoch

    @property
    def position(self) -> StreamPosition:
        """Where the next record is."""
        return StreamPosition(self._stream, self._next_sequence)

    def break_off(self) -> None:
        """Let nobody join what comes with what was: something between could not be read."""
        self._begin(EpochCause.LOST)

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
        version, stream, start_utc, *rest = fields[3:]
        if version != FORMAT_VERSION:
            raise TraceError(f"this reader knows version {FORMAT_VERSION} of the telemetry", got=version)
        facts = _facts(*rest)
        stream, start_utc = str(stream)[:_MAX_TEXT], str(start_utc)[:_MAX_TEXT]
        cause = self._cause_of(stream, stream_epoch, sequence, facts)
        if cause is not None:
            self._begin(cause)
        self._stream, self._start_utc, self._stream_epoch = stream, start_utc, stream_epoch
        self._next_sequence, self.facts = sequence, facts

    def _cause_of(self, stream: str, stream_epoch: int, sequence: int, facts: StreamFacts) -> EpochCause | None:
        """Why a header begins an epoch of ours; ``None`` if it only repeats what is known."""
        if self.facts is None:
            return EpochCause.ATTACHED
        if stream != self._stream:
            return EpochCause.RESTARTED if facts == self.facts else EpochCause.CHANGED
        self.lost += max(0, sequence - self._next_sequence)
        if sequence != self._next_sequence:
            return EpochCause.LOST
        if stream_epoch != self._stream_epoch:
            return EpochCause.RESET
        return None if facts == self.facts else EpochCause.CHANGED

    def _begin(self, cause: EpochCause) -> None:
        self._epoch += 1
        self._cause = cause

    def _follows(self, sequence: int, stream_epoch: int) -> bool:
        """Whether a record can be placed; a gap before it begins a new epoch."""
        if self.facts is None or stream_epoch != self._stream_epoch:
            self.skipped += 1
            return False
        if sequence != self._next_sequence:
            self.lost += max(0, sequence - self._next_sequence)
            self._begin(EpochCause.LOST)
        self._next_sequence = sequence + 1
        resume = self._resume
        return resume is None or resume.stream != self._stream or sequence >= resume.sequence

    def _records(self, kind: int, fields: Any) -> Iterator[AccessRecord | TransferRecord]:
        time_s = _finite(fields[3])
        if kind == TRANSFER:
            direction, moved_bytes, seconds = fields[4:]
            yield TransferRecord(time_s, self._epoch, Direction(direction), int(moved_bytes), _finite(seconds))
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
            request=int(request),
            chain=int(chain),
            block_ids=tuple(array("Q", block_ids)),  # numbers of 64 bits, or an error
            first_depth_blocks=int(first_depth),
            tokens=int(tokens),
            tier=None if tier == NO_TIER else Tier(tier),
            moved_bytes=int(moved_bytes),
            seconds=_finite(seconds),
            features=_features(features),
        )


def _features(values: Any) -> AccessFeatures:
    """Features as they were told; earlier writers told fewer, and nothing of a learned rule."""
    told = [*values]
    runs = told.pop() if len(told) == _N_FEATURES else None
    if runs is not None:
        runs = tuple((int(n), tuple(map(_finite, vector))) for n, vector in runs)
    return replace(AccessFeatures(*told), runs=runs)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} seconds")
    return number


def _facts(engine: Any, model: Any, chunk_tokens: Any, kv_bytes_per_token: Any, n_groups: Any = 0) -> StreamFacts:
    """What a header says; earlier writers leave the last one out."""
    names = str(engine)[:_MAX_TEXT], str(model)[:_MAX_TEXT]
    return StreamFacts(*names, int(chunk_tokens), int(kv_bytes_per_token), int(n_groups))


def _decoder() -> Any:
    try:
        import msgspec
    except ImportError as problem:
        raise MissingExtraError(
            "reading telemetry needs the package msgspec", remedy="pip install msgspec"
        ) from problem
    return msgspec.msgpack.Decoder().decode
