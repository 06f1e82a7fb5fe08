"""The stream of frames: headers, epochs and sequence numbers around the records. Runs in the recorder's thread.

A frame is one MessagePack array that begins with its kind, a sequence number and the number of its epoch. An epoch
begins with a header; so does every segment file, and a live stream repeats it for subscribers that come late. Headers
take no sequence number of their own: theirs is that of the next record.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from operator import attrgetter
from typing import Protocol

from autotune.core.access import AccessFeatures
from autotune.core.clock import Clock
from autotune.core.errors import MissingExtraError
from autotune.core.telemetry.wire import ACCESS, FORMAT_VERSION, HEADER, NO_TIER, TRANSFER, StreamFacts
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.record_values import RequestAccess, Run, Transfer

_ID = slice(-12, -4)
_GROUP = slice(-4, None)


_FACTS = attrgetter(*(field.name for field in fields(StreamFacts)))
_FEATURES = attrgetter(*(field.name for field in fields(AccessFeatures)))


class RecordSink(Protocol):
    """Takes frames in order; whatever it raises loses the frame."""

    def needs_header(self, frame_bytes: int) -> bool:
        """Whether a header has to go before the next frame, which has this size."""

    def write(self, frame: bytes) -> None:
        """Take one frame."""

    def close(self) -> None:
        """Let go of files and sockets."""


class RecordStream:
    """Numbers and encodes records, and begins an epoch whenever one was lost.

    Args:
        facts: What readers must know.
        sink: Where frames go.
        clock: Tells when an epoch began, in UTC.

    Raises:
        MissingExtraError: this environment has no msgspec.
    """

    def __init__(self, facts: StreamFacts, sink: RecordSink, clock: Clock) -> None:
        self._encode = _encoder()
        self._facts = facts
        self._sink = sink
        self._clock = clock
        self._stream = secrets.token_hex(8)
        self._sequence = 0
        self._epoch = -1
        self._start_ns = 0
        self._start_utc = ""
        self._breaks: int | None = None  # at the last record; the first one begins an epoch
        self._is_header_due = False

    def write(self, record: RequestAccess | Transfer, breaks: int) -> None:
        """Send one record.

        Args:
            record: It.
            breaks: How often records were lost, or the cache was reset, before this one.

        Raises:
            Exception: it is lost, and the next one begins a new epoch.
        """
        if breaks != self._breaks:
            self._begin_epoch(record.time_ns)
        self._breaks = None  # until this one has left
        frame = self._encode(self._fields(record))
        if self._sink.needs_header(len(frame)) or self._is_header_due:
            self._sink.write(self._encode(self._header()))
            self._is_header_due = False
        self._sink.write(frame)
        self._sequence += 1
        self._breaks = breaks

    def close(self) -> None:
        """Let go of the sink."""
        self._sink.close()

    def _begin_epoch(self, time_ns: int) -> None:
        ago = timedelta(seconds=self._clock.monotonic_s() - time_ns / NS_PER_S)
        self._epoch += 1
        self._start_ns = time_ns
        self._start_utc = (self._clock.utc_now() - ago).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._is_header_due = True

    def _header(self) -> list[object]:
        place = [HEADER, self._sequence, self._epoch]
        return [*place, FORMAT_VERSION, self._stream, self._start_utc, *_FACTS(self._facts)]

    def _fields(self, record: RequestAccess | Transfer) -> list[object]:
        kind = ACCESS if isinstance(record, RequestAccess) else TRANSFER
        place: list[object] = [kind, self._sequence, self._epoch, (record.time_ns - self._start_ns) / NS_PER_S]
        if isinstance(record, RequestAccess):
            return [*place, record.request, record.chain, [_run(run) for run in record.runs]]
        return [*place, record.direction, record.moved_bytes, record.seconds]


def split_key(key: bytes) -> tuple[int, int]:
    """Hash as KV events carry it (its last 64 bits), and KV-cache group, of an engine's key.

    Source: vLLM 0.32, make_offload_key in v1/kv_offload/base.py, and maybe_convert_block_hash in
    v1/core/kv_cache_utils.py.
    """
    return int.from_bytes(key[_ID], "big"), int.from_bytes(key[_GROUP], "big")


def _run(run: Run) -> list[object]:
    group = split_key(run.keys[0])[1] if run.keys else 0
    tier = NO_TIER if run.tier is None else int(run.tier)
    fate = [run.tokens, tier, run.moved_bytes, run.seconds]
    return [
        group,
        run.first_depth,
        [int.from_bytes(key[_ID], "big") for key in run.keys],
        *fate,
        _FEATURES(run.features),
    ]


def _encoder() -> Callable[[object], bytes]:
    try:
        import msgspec
    except ImportError as problem:
        raise MissingExtraError("telemetry needs the package msgspec", remedy="pip install msgspec") from problem
    encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
    return encode
