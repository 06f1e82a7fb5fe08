"""Messages of KV events as the engines publish them.

A message has three frames: topic, sequence (8 bytes, most significant first), and a MessagePack array ``[time, events,
rank, …]``. An event is a map tagged ``type`` or, in older versions, an array that begins with its name. What is not
needed here, tokens first of all, is skipped by the decoder and never becomes a Python object.

Source: vLLM 0.24 to 0.33, distributed/kv_events.py (maps; its older versions sent arrays); SGLang 0.5,
srt/disaggregation/kv_events.py (maps, signed numbers); LMCache (negative numbers); llm-d's file-system offload (text
hashes, no tokens).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from autotune.core.errors import AutotuneError

_MASK = 2**64 - 1
_SEQUENCE_BYTES = 8
_LONG_SEQUENCE_BYTES = 24
_END = b"\xff" * _SEQUENCE_BYTES
MAX_EVENTS = 1_000_000  # in one message; more is no message of an engine


class EventError(AutotuneError):
    """A message is none of KV events, or a part of one."""


class Stored(msgspec.Struct, tag="BlockStored", gc=False):
    """Blocks are on a tier now. Tokens and keys are not decoded."""

    block_hashes: list[Any]
    parent_block_hash: Any = None
    block_size: Any = 0
    medium: Any = None
    group_idx: Any = None


class Removed(msgspec.Struct, tag="BlockRemoved", gc=False):
    """Blocks are on a tier no longer."""

    block_hashes: list[Any]
    medium: Any = None
    group_idx: Any = None


class Cleared(msgspec.Struct, tag="AllBlocksCleared", gc=False):
    """The cache was emptied."""


class _StoredArray(msgspec.Struct, tag="BlockStored", array_like=True, gc=False):
    block_hashes: list[Any]
    parent_block_hash: Any
    token_ids: msgspec.Raw
    block_size: Any = 0
    lora_id: msgspec.Raw = msgspec.Raw()
    medium: Any = None
    group_idx: ClassVar[None] = None


class _RemovedArray(msgspec.Struct, tag="BlockRemoved", array_like=True, gc=False):
    block_hashes: list[Any]
    medium: Any = None
    group_idx: ClassVar[None] = None


class _ClearedArray(msgspec.Struct, tag="AllBlocksCleared", array_like=True, gc=False):
    pass


class _Maps(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[Stored | Removed | Cleared]


class _Arrays(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[_StoredArray | _RemovedArray | _ClearedArray]


AnyStored = Stored | _StoredArray
Event = Stored | Removed | Cleared | _StoredArray | _RemovedArray | _ClearedArray
STORED_TYPES = (Stored, _StoredArray)
REMOVED_TYPES = (Removed, _RemovedArray)


@dataclass(frozen=True, slots=True)
class Batch:
    """One message's events.

    Attributes:
        time_s: When the engine sent it, Unix time.
        events: Those of known kinds, in order.
        unknown: Names of events of other kinds.
    """

    time_s: float
    events: Sequence[Event]
    unknown: tuple[str, ...] = ()


class EventDecoder:
    """Decodes payloads; the form that fitted last is tried first."""

    def __init__(self) -> None:
        self._typed: list[Any] = [msgspec.msgpack.Decoder(_Maps), msgspec.msgpack.Decoder(_Arrays)]
        self._any = msgspec.msgpack.Decoder()

    def decode(self, payload: bytes) -> Batch:
        """The events in a payload.

        Raises:
            EventError: it is none, or a part of one.
        """
        try:
            for place, decoder in enumerate(self._typed):
                try:
                    batch: Any = decoder.decode(payload)
                except msgspec.ValidationError:
                    continue
                if place:
                    self._typed.reverse()
                return Batch(batch.ts, batch.events)
            return _by_hand(self._any.decode(payload))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as problem:
            raise EventError("a message must hold KV events", got=f"{len(payload)} bytes: {problem}"[:200]) from problem


def block_id(block_hash: object) -> int:
    """A hash of any form as a number of 64 bits, the one that telemetry carries for the same block.

    Numbers are taken modulo 2**64, of bytes the last eight count, and text is hashed unless it is a number.

    Raises:
        EventError: it is none of these.
    """
    if type(block_hash) is int:
        return block_hash & _MASK
    if isinstance(block_hash, bytes):
        return int.from_bytes(block_hash[-8:], "big")
    if isinstance(block_hash, str):
        digits = block_hash.removeprefix("int:")
        if digits.removeprefix("-").isdecimal() and len(digits) <= 20:
            return int(digits) & _MASK
        return int.from_bytes(hashlib.blake2b(block_hash.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    raise EventError("a block hash must be a number, bytes or text", got=type(block_hash).__name__)


def parse_sequence(frame: bytes) -> tuple[int, bytes]:
    """Number of a message, and the bytes that name its stream where the frame has some.

    Of 24 bytes eight are the number, the other sixteen name the stream. Which side it stands on is told by its size:
    it is the smaller one of the two, as names are drawn at random.

    Returns:
        The number, -1 for the end of a replay, and the name, empty for a frame of 8 bytes.

    Raises:
        EventError: the frame has another length.
    """
    if len(frame) == _SEQUENCE_BYTES:
        return (-1 if frame == _END else int.from_bytes(frame, "big")), b""
    if len(frame) == _LONG_SEQUENCE_BYTES:
        head, tail = frame[:_SEQUENCE_BYTES], frame[-_SEQUENCE_BYTES:]
        if _END in (head, tail):
            return -1, b""
        if head < tail:
            return int.from_bytes(head, "big"), frame[_SEQUENCE_BYTES:]
        return int.from_bytes(tail, "big"), frame[:-_SEQUENCE_BYTES]
    raise EventError("a sequence must have 8 or 24 bytes", got=len(frame))


_STORED_FIELDS = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")
_REMOVED_FIELDS = ("block_hashes", "medium")


def _by_hand(content: Any) -> Batch:
    """A payload that no typed decoder took: kinds may be mixed, unknown, or have fields of unknown types."""
    if not isinstance(content, list) or len(content) < 2 or not isinstance(content[1], list):
        raise ValueError("no array of time and events")
    time_s = content[0] if isinstance(content[0], int | float) else 0.0
    events: list[Event] = []
    unknown = []
    for item in content[1][:MAX_EVENTS]:
        name, fields = _named(item)
        if name == "AllBlocksCleared":
            events.append(Cleared())
        elif name in {"BlockStored", "BlockRemoved"} and isinstance(hashes := fields.get("block_hashes"), list):
            medium, group = fields.get("medium"), fields.get("group_idx")
            if name == "BlockRemoved":
                events.append(Removed(hashes, medium, group))
            else:
                parent, size = fields.get("parent_block_hash"), fields.get("block_size", 0)
                events.append(Stored(hashes, parent, size, medium, group))
        else:
            unknown.append(name[:40])
    return Batch(float(time_s), events, tuple(unknown))


def _named(item: Any) -> tuple[str, dict[Any, Any]]:
    if isinstance(item, dict):
        return str(item.get("type")), item
    if isinstance(item, list) and item:
        names = _STORED_FIELDS if item[0] == "BlockStored" else _REMOVED_FIELDS
        return str(item[0]), dict(zip(names, item[1:], strict=False))
    raise ValueError("an event that is neither a map nor an array")
