"""What the plug-in tells, from its folder of segments or from its socket."""

from __future__ import annotations

from pathlib import Path

from autotune.core.access import AccessRecord
from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import AutotuneError, ConfigError, TraceError
from autotune.core.signals import Collected, EngineTold, Target
from autotune.core.telemetry.following import SegmentFollower
from autotune.core.telemetry.reading import FrameReader
from autotune.core.telemetry.wire import TOPIC, EpochStart, StreamPosition, TransferRecord
from autotune.core.units import MIB
from autotune_collectors.announced import reached

TelemetryRecord = AccessRecord | TransferRecord | EpochStart
_MAX_TURN_BYTES = 16 * MIB
_MAX_WAITING = 4_000  # messages; of a 64,000-token prompt in chunks of 32 tokens each has about 20 kB
_FILE = "file:"
_NOT_TOLD = "the engine's page names no place for records; give the plug-in the setting telemetry, or --telemetry here"


class _Folder:
    """Frames from segments."""

    def __init__(self, folder: Path, from_end: bool) -> None:
        self._folder = folder
        self._follower = SegmentFollower(folder, from_end=from_end)
        self._told_damaged = 0

    def frames(self) -> list[bytes]:
        if not self._folder.is_dir():
            raise ConfigError(
                "telemetry needs its folder", got=f"no {self._folder}", remedy="start the engine with the plug-in"
            )
        return self._follower.read(_MAX_TURN_BYTES)

    def take_damaged(self) -> int:
        new, self._told_damaged = self._follower.damaged - self._told_damaged, self._follower.damaged
        return new

    def close(self) -> None:
        """Nothing is kept open between two turns."""


class _Socket:
    """Frames from a publisher."""

    def __init__(self, endpoint: str) -> None:
        from autotune_collectors.subscription import Subscription

        self._endpoint = endpoint
        self._subscription = Subscription(endpoint, TOPIC, _MAX_WAITING)

    def frames(self) -> list[bytes]:
        self._subscription.look()
        frames = [message[-1] for message in self._subscription.messages(_MAX_WAITING)]
        if not frames and not self._subscription.connected:
            raise ConfigError(
                "telemetry needs its publisher", got=f"nobody at {self._endpoint}", remedy="is the engine running?"
            )
        return frames

    def take_damaged(self) -> int:
        return 0

    def close(self) -> None:
        self._subscription.close()


class TelemetryCollector:
    """Hands on the plug-in's records, in order, with a mark where an epoch begins.

    What is handed on is :class:`AccessRecord`, :class:`TransferRecord`, and before the first record of each epoch an
    :class:`EpochStart`. An epoch begins where the plug-in says so, where the engine was restarted, and where records
    are missing or cannot be read. Memory is bounded: of a folder a bounded part is read per turn, and at a socket a
    bounded number of messages wait.

    Args:
        source: ``file:FOLDER``, ``ipc://PATH`` or ``tcp://HOST:PORT``, as the plug-in's setting ``telemetry`` has it;
            ``None`` = where the engine's page says.
        group: KV-cache group whose runs are wanted.
        resume: Where an earlier collector stopped; what came before is not handed on again.
        from_end: Whether what a folder holds already is passed over.
        clock: Times the turns.
        target: The engine whose page says where its records are, where ``source`` does not.

    Raises:
        ConfigError: the source is not of these forms.
        MissingExtraError: a package that it needs is not installed.
    """

    def __init__(
        self,
        source: str | None,
        *,
        group: int = 0,
        resume: StreamPosition | None = None,
        from_end: bool = False,
        clock: Clock | None = None,
        target: Target | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._target, self._from_end = target, from_end
        self._reader = FrameReader(group, resume)
        self._told_epoch = -1
        self._told_lost = 0
        self._place = ""  # as the page had it last
        self._missing = _NOT_TOLD
        self._source = None if source is None else _open(source, from_end)

    @classmethod
    def announced(cls, target: Target, clock: Clock) -> TelemetryCollector:
        """One that goes where the engine's page says, as soon as it does."""
        return cls(None, clock=clock, target=target)

    def inform(self, told: EngineTold) -> None:
        """Take over where the page says that records are; where it says nothing any more, what was known holds.

        Another place than before is another start of the engine, which the records themselves show.
        """
        if self._target is None or told.telemetry in ("", self._place):
            return
        self.close()
        self._place, self._source = told.telemetry, None
        place = reached(told.telemetry, self._target)
        if place is None:
            self._missing = f"records are at {told.telemetry[:100]} of the engine's machine; give --telemetry"
            return
        try:
            self._source = _open(place, self._from_end)
        except AutotuneError as problem:
            self._missing = str(problem)

    @property
    def name(self) -> str:
        """Name in status, metrics and logs."""
        return "telemetry"

    @property
    def position(self) -> StreamPosition:
        """Where the next record is, for a checkpoint."""
        return self._reader.position

    def collect(self, now_s: float) -> Collected[TelemetryRecord]:
        """The records that have come since the last turn."""
        start_s = self._clock.monotonic_s()
        if self._source is None:
            return Collected(ok=False, seconds=0.0, error=self._missing)
        try:
            frames = self._source.frames()
        except (OSError, AutotuneError) as problem:
            return Collected(ok=False, seconds=self._clock.monotonic_s() - start_s, error=str(problem))
        records, unreadable = self._records(frames, self._source.take_damaged())
        lost = self._reader.lost
        new_lost, self._told_lost = lost - self._told_lost, lost
        return Collected(
            ok=True,
            seconds=self._clock.monotonic_s() - start_s,
            error=f"{unreadable} frames could not be read" if unreadable else None,
            records=records,
            lost=new_lost + unreadable,
        )

    def close(self) -> None:
        """Let go of sockets."""
        if self._source is not None:
            self._source.close()

    def _records(self, frames: list[bytes], unreadable: int) -> tuple[list[TelemetryRecord], int]:
        records: list[TelemetryRecord] = []
        if unreadable:
            self._reader.break_off()
        for frame in frames:
            try:
                found = self._reader.read(frame)
            except TraceError:
                unreadable += 1
                self._reader.break_off()
                continue
            start = self._reader.epoch_start
            if found and start is not None and start.epoch != self._told_epoch:
                self._told_epoch = start.epoch
                records.append(start)
            records += found
        return records, unreadable


def _open(source: str, from_end: bool) -> _Folder | _Socket:
    if source.startswith(_FILE):
        return _Folder(Path(source.removeprefix(_FILE).removeprefix("//")), from_end)
    return _Socket(source)
