"""What the engine tells about accesses and transfers, for whoever learns from it. Hashes only: no tokens, no text.

The scheduler hands over small values and never waits: :class:`AccessRecorder` keeps a bounded queue and one thread that
writes to a socket or to bounded files. What does not fit is counted, and ends an epoch, so that nobody joins records
across a gap. The format is described in ``docs/telemetry.md``.
"""

from __future__ import annotations

from typing import NamedTuple

from autotune.core.clock import Clock, SystemClock
from autotune.core.telemetry.wire import Direction, StreamFacts
from autotune_policies.engines.live.outbox import Outbox
from autotune_policies.engines.live.publisher import Publisher
from autotune_policies.engines.live.record_stream import RecordSink, RecordStream
from autotune_policies.engines.live.record_values import RequestAccess, Run, Transfer
from autotune_policies.engines.live.segments import SegmentWriter
from autotune_policies.engines.live.targets import TargetKind, TelemetryTarget

__all__ = ["AccessRecorder", "Direction", "RequestAccess", "Run", "StreamFacts", "Transfer"]

MAX_WAITING_KEYS = 1_000_000  # about 8 MB of references to keys that the index holds anyway
_RECORD_COST = 16  # what a record takes beside its keys, in keys


class _Queued(NamedTuple):
    record: RequestAccess | Transfer
    breaks: int


class AccessRecorder:
    """Sends records from the scheduler's thread to a socket or to files, without ever waiting.

    Args:
        facts: What readers must know about the engine.
        target: Where records go.
        max_bytes: Most bytes that files take; a socket needs none.
        clock: Tells the time that epochs and files begin.
        max_waiting_keys: Bound of the queue, in chunk keys.

    Raises:
        MissingExtraError: a package that the target needs is not there.
    """

    def __init__(
        self,
        facts: StreamFacts,
        target: TelemetryTarget,
        max_bytes: int,
        clock: Clock | None = None,
        max_waiting_keys: int = MAX_WAITING_KEYS,
    ) -> None:
        clock = clock or SystemClock()
        self._stream = RecordStream(facts, _sink(target, max_bytes, clock), clock)
        self._breaks = 0
        self._outbox: Outbox[_Queued] = Outbox(
            "kv-autotune telemetry", self._write, max_waiting_keys, self._stream.close
        )

    @property
    def lost(self) -> int:
        """Records that were dropped because the queue was full, or could not be written."""
        return self._outbox.lost

    def take_lost(self) -> int:
        """The same, since this was last asked."""
        return self._outbox.take_lost()

    def access(self, record: RequestAccess) -> None:
        """Tell what one request did."""
        self._offer(record, _RECORD_COST + sum(len(run.keys) for run in record.runs))

    def transfer(self, record: Transfer) -> None:
        """Tell about one finished copy."""
        self._offer(record, _RECORD_COST)

    def begin_epoch(self) -> None:
        """Let nobody join what comes with what was, as after a reset of the cache."""
        self._breaks += 1

    def close(self) -> None:
        """Write what waits and let go of files and sockets."""
        self._outbox.close()

    def _offer(self, record: RequestAccess | Transfer, cost: int) -> None:
        if not self._outbox.offer(_Queued(record, self._breaks), cost):
            self._breaks += 1

    def _write(self, queued: _Queued) -> None:
        self._stream.write(queued.record, queued.breaks)


def _sink(target: TelemetryTarget, max_bytes: int, clock: Clock) -> RecordSink:
    if target.kind is TargetKind.FILE and target.path is not None:
        return SegmentWriter(target.path, max_bytes, clock)
    return Publisher(target, clock)
