"""The values of the format that both sides need; ``docs/telemetry.md`` describes the whole of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FORMAT_VERSION = 1
HEADER, ACCESS, TRANSFER = 0, 1, 2
NO_TIER = -1
TOPIC = b"kv-autotune"


class Direction(StrEnum):
    """Which way bytes went."""

    LOAD = "load"  # host to device
    STORE = "store"  # device to host


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What a reader must know about the engine to use its records.

    Attributes:
        engine: Name and version, such as ``vllm 0.32.0``.
        model: Name of the model.
        chunk_tokens: Tokens of one chunk.
        kv_bytes_per_token: KV of one token over all layers and ranks; 0 = unknown.
        n_groups: Kinds of layers whose KV is kept in blocks of their own; 0 = unknown.
    """

    engine: str
    model: str
    chunk_tokens: int
    kv_bytes_per_token: int
    n_groups: int = 0


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


class EpochCause(StrEnum):
    """Why what follows must not be joined with what came before."""

    ATTACHED = "attached"  # the reader came in the middle, or for the first time
    RESTARTED = "restarted"  # another start of the engine
    CHANGED = "changed"  # another model, adapter or size of chunks
    RESET = "reset"  # the engine began an epoch: its cache was emptied, or it dropped records of its own
    LOST = "lost"  # records are missing on the way


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A new epoch, met before its first record.

    Attributes:
        epoch: Number that its records carry.
        cause: Why it began.
        stream: Which start of the engine it belongs to, 16 hexadecimal digits; empty where only its KV events are seen.
        start_utc: The moment that its times count from, as ``2026-01-31T12:00:00.000Z``.
        facts: What the engine said about itself.
    """

    epoch: int
    cause: EpochCause
    stream: str
    start_utc: str
    facts: StreamFacts


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A place in a stream: the next record is the one with this number.

    Attributes:
        stream: Which start of the engine.
        sequence: Number of the record that comes next.
    """

    stream: str
    sequence: int
