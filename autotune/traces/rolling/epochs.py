"""What a recording consists of: epochs, their segments, and requests in them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from autotune.core.telemetry.wire import EpochCause
from autotune.core.trace_hints import NO_HINTS, RequestHints
from autotune.traces.fields import Fault, Malformed, integer, parse_object, shown, text

SEGMENT_SCHEMA = "kv-autotune/recording-segment/v1"
JOURNAL, PARQUET = ".journal", ".parquet"
_NAME = re.compile(r"epoch-([0-9]{4,9})-seg-([0-9]{4,9})")
_MAX_TOKENS = 2**20


class EvidenceGrade(StrEnum):
    """What a recording's requests carry."""

    TELEMETRY = "telemetry"  # of the plug-in: every access is known
    EVENTS_ONLY = "events_only"  # of a stock engine: device hits are missing


@dataclass(frozen=True, slots=True)
class EpochFacts:
    """What holds for all requests of an epoch.

    Attributes:
        grade: What they carry.
        cause: Why the epoch began.
        start_utc: The moment that times count from.
        engine: Name and version.
        model: Name of the model.
        block_tokens: Tokens per block; 0 = unknown.
        kv_bytes_per_token: KV of one token; 0 = unknown.
        stream: Which start of the engine; empty = unknown.
    """

    grade: EvidenceGrade
    cause: EpochCause
    start_utc: str
    engine: str
    model: str
    block_tokens: int
    kv_bytes_per_token: int = 0
    stream: str = ""


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """Place of a segment: its epoch, then its number in it."""

    epoch: int
    number: int

    def __str__(self) -> str:
        return f"epoch-{self.epoch:04}-seg-{self.number:04}"

    @classmethod
    def of(cls, path: Path) -> SegmentName | None:
        """The name of a file, ``None`` if it is no segment."""
        match = _NAME.fullmatch(path.stem) if path.suffix in {JOURNAL, PARQUET} else None
        return None if match is None else cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What one request asked for and where its blocks were found.

    Attributes:
        time_s: Seconds since the start of the epoch.
        input_tokens: Prompt tokens.
        output_tokens: Generated tokens.
        block_ids: ``(n_blocks,)`` numbers of 64 bits in prefix order.
        session: Conversation, -1 = unknown.
        stop_reason: Why it ended, in the engine's word; empty = unknown.
        device_blocks: How many of its blocks the device had.
        host_blocks: How many after those came from the host or from disk.
        hints: What the client told.
    """

    time_s: float
    input_tokens: int
    output_tokens: int
    block_ids: Sequence[int]
    session: int = -1
    stop_reason: str = ""
    device_blocks: int = 0
    host_blocks: int = 0
    hints: RequestHints = NO_HINTS


def segments_of(folder: Path) -> dict[SegmentName, Path]:
    """The segments of a recording in order; of one that is there in both forms, the Parquet."""
    found: dict[SegmentName, Path] = {}
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):  # .journal sorts before .parquet
        name = SegmentName.of(path)
        if name is not None:
            found[name] = path
    return dict(sorted(found.items()))


def dump_facts(facts: EpochFacts) -> bytes:
    """The facts as JSON, the same bytes for the same facts."""
    content = {
        "schema": SEGMENT_SCHEMA,
        "grade": facts.grade.value,
        "cause": facts.cause.value,
        "start_utc": facts.start_utc,
        "engine": facts.engine,
        "model": facts.model,
        "block_tokens": facts.block_tokens,
        "kv_bytes_per_token": facts.kv_bytes_per_token,
        "stream": facts.stream,
    }
    return json.dumps(content, sort_keys=True).encode()


def parse_facts(content: bytes) -> EpochFacts:
    """The facts from JSON.

    Raises:
        Malformed: a field is missing or does not fit.
    """
    try:
        row = parse_object(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(Fault.NOT_UTF8, "a segment's header must be UTF-8", str(error)) from error
    if row.get("schema") != SEGMENT_SCHEMA:
        raise Malformed(Fault.OUT_OF_RANGE, f"a segment's schema must be {SEGMENT_SCHEMA}", shown(row.get("schema")))
    try:
        grade, cause = EvidenceGrade(text(row, "grade")), EpochCause(text(row, "cause"))
    except ValueError as error:
        raise Malformed(Fault.OUT_OF_RANGE, "grade and cause must be known ones", str(error)) from error
    return EpochFacts(
        grade=grade,
        cause=cause,
        start_utc=text(row, "start_utc"),
        engine=text(row, "engine"),
        model=text(row, "model"),
        block_tokens=integer(row, "block_tokens", high=_MAX_TOKENS),
        kv_bytes_per_token=integer(row, "kv_bytes_per_token", high=2**40),
        stream=text(row, "stream"),
    )
