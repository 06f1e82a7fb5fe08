"""What the plug-in's own recorder writes is what the collector hands on, with every break marked."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.errors import AutotuneError
from autotune.core.telemetry.segments import segments_in
from autotune.core.telemetry.wire import Direction, EpochCause, EpochStart, StreamFacts, TransferRecord
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.testing.clocks import ManualClock
from autotune.traces.rolling.feed import RecordingFeed
from autotune.traces.rolling.recorder import Recorder
from autotune_collectors.telemetry import TelemetryCollector
from autotune_policies.engines.live.record_stream import RecordStream
from autotune_policies.engines.live.records import AccessRecorder, RequestAccess, Run, Transfer
from autotune_policies.engines.live.segments import SegmentWriter
from autotune_policies.engines.live.targets import TelemetryTarget

pytestmark = pytest.mark.engine("msgspec", "zmq")
FACTS = StreamFacts("vllm 0.32.0", "tiny", 32, 1024)
BIG = 2**25


def access(request: int) -> RequestAccess:
    """A request that found its first block and computed another."""
    keys = [number.to_bytes(32, "big") + bytes(4) for number in (7, request + 100)]
    features = AccessFeatures(output_tokens=3, stop_reason="stop")
    runs = (Run((keys[0],), 0, 32, Tier.DEVICE, features=features), Run((keys[1],), 1, 40, None, features=features))
    return RequestAccess(1_000 * 10**9 + request * 10**8, request, -1, runs)


class Engine:
    """The plug-in's side, writing to a folder without a thread."""

    def __init__(self, folder: Path, facts: StreamFacts = FACTS, start_s: float = 0.0, max_bytes: int = BIG) -> None:
        clock = ManualClock()
        clock.advance(start_s)
        self._stream = RecordStream(facts, SegmentWriter(folder, max_bytes, clock), clock)

    def write(self, requests: range, breaks: int = 0) -> None:
        """Tell about some requests."""
        for request in requests:
            self._stream.write(access(request), breaks)


def marks(records: Any) -> list[tuple[int, EpochCause]]:
    """The epochs that begin among these records."""
    return [(record.epoch, record.cause) for record in records if isinstance(record, EpochStart)]


def requests(records: Any) -> list[int]:
    """The requests among these records, each once."""
    return list(dict.fromkeys(record.request for record in records if isinstance(record, AccessRecord)))


def test_records_come_in_order_behind_the_mark_of_their_epoch(tmp_path: Path) -> None:
    """A first turn, and then what is new in each further one."""
    engine = Engine(tmp_path)
    collector = TelemetryCollector(f"file:{tmp_path}")
    engine.write(range(5))
    turn = collector.collect(0.0)
    assert (turn.ok, turn.error, turn.lost) == (True, None, 0)
    first = turn.records[0]
    assert isinstance(first, EpochStart)
    assert (first.epoch, first.cause, first.facts) == (0, EpochCause.ATTACHED, FACTS)
    assert requests(turn.records) == [0, 1, 2, 3, 4]
    assert not collector.collect(0.0).records
    engine.write(range(5, 8))
    assert requests(collector.collect(0.0).records) == [5, 6, 7]


def test_a_reset_and_a_restart_and_another_model_are_told_apart(tmp_path: Path) -> None:
    """Each begins an epoch with its own cause, before the first of its records."""
    collector = TelemetryCollector(f"file:{tmp_path}")
    engine = Engine(tmp_path)
    engine.write(range(3))
    engine.write(range(3, 6), breaks=1)
    Engine(tmp_path, start_s=60.0).write(range(2))
    Engine(tmp_path, StreamFacts("vllm 0.32.0", "large", 32, 1024), start_s=120.0).write(range(2))
    turn = collector.collect(0.0)
    assert marks(turn.records) == [
        (0, EpochCause.ATTACHED),
        (1, EpochCause.RESET),
        (2, EpochCause.RESTARTED),
        (3, EpochCause.CHANGED),
    ]
    assert turn.lost == 0


def test_segments_that_went_before_they_were_read_are_a_loss(tmp_path: Path) -> None:
    """The engine made room: what is missing is counted, and what follows is of another epoch."""
    engine = Engine(tmp_path, max_bytes=16 * 1024)
    collector = TelemetryCollector(f"file:{tmp_path}")
    engine.write(range(10))
    collector.collect(0.0)
    engine.write(range(10, 1_000))
    turn = collector.collect(0.0)
    seen = requests(turn.records)
    assert marks(turn.records) == [(1, EpochCause.LOST)]
    assert turn.lost == seen[0] - 10 > 0
    assert seen == list(range(seen[0], 1_000))


def test_a_damaged_frame_is_counted_and_ends_the_epoch(tmp_path: Path) -> None:
    """A frame of another form in the middle: one error line, and the records around it are not joined."""
    Engine(tmp_path).write(range(6))
    (segment,) = segments_in(tmp_path)
    content = bytearray(segment.read_bytes())
    place = len(content) // 2
    content[place : place + 8] = b"\xc1" * 8
    segment.write_bytes(content)
    turn = TelemetryCollector(f"file:{tmp_path}").collect(0.0)
    assert "could not be read" in (turn.error or "")
    assert turn.lost >= 1
    assert len(marks(turn.records)) == 2


def test_an_earlier_position_is_gone_on_from(tmp_path: Path) -> None:
    """After a restart of the sidecar, records before the checkpoint are not handed on twice; later ones are."""
    engine = Engine(tmp_path)
    engine.write(range(5))
    before = TelemetryCollector(f"file:{tmp_path}")
    before.collect(0.0)
    engine.write(range(5, 9))
    after = TelemetryCollector(f"file:{tmp_path}", resume=before.position)
    turn = after.collect(0.0)
    assert requests(turn.records) == [5, 6, 7, 8]
    assert marks(turn.records) == [(0, EpochCause.ATTACHED)]
    assert turn.lost == 0


def test_what_is_there_can_be_passed_over(tmp_path: Path) -> None:
    """From the end only what comes is handed on, without a loss."""
    engine = Engine(tmp_path)
    engine.write(range(5))
    collector = TelemetryCollector(f"file:{tmp_path}", from_end=True)
    collector.collect(0.0)
    engine.write(range(5, 7))
    assert requests(collector.collect(0.0).records) == [5, 6]


def test_no_folder_and_no_address_are_said(tmp_path: Path) -> None:
    """A folder that is not there fails the turn; an address that is none is refused at once."""
    turn = TelemetryCollector(f"file:{tmp_path / 'none'}").collect(0.0)
    assert not turn.ok
    assert "folder" in (turn.error or "")
    with pytest.raises(AutotuneError, match="ZMQ"):
        TelemetryCollector("nonsense")


def test_a_socket_is_followed(tmp_path: Path) -> None:
    """The plug-in's publisher and the collector over a real socket: records, transfers, and a mark of the epoch."""
    endpoint = f"ipc://{tmp_path}/socket"
    collector = TelemetryCollector(endpoint)
    assert not collector.collect(0.0).ok
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(endpoint), BIG)
    records: list[Any] = []
    for request in range(2_000):
        if request % 10 == 0:
            recorder.begin_epoch()  # a header for whom the subscription came late
        recorder.access(access(request))
        recorder.transfer(Transfer(10**12, Direction.LOAD, 10, 0.5))
        threading.Event().wait(0.005)
        records += collector.collect(0.0).records
        if len(requests(records)) >= 20:
            break
    recorder.close()
    collector.close()
    seen = requests(records)
    assert len(seen) >= 20
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert marks(records)[0] == (0, EpochCause.ATTACHED)
    assert any(isinstance(record, TransferRecord) for record in records)


@pytest.mark.engine("pyarrow")
def test_from_the_plug_in_to_a_trace(tmp_path: Path) -> None:
    """Telemetry, collector, recording, trace: what requests asked for arrives in the tuner."""
    folder, recording = tmp_path / "telemetry", tmp_path / "recording"
    engine = Engine(folder)
    collector = TelemetryCollector(f"file:{folder}")
    recorder = Recorder(recording, ManualClock())
    feed = RecordingFeed(recorder)
    for start in range(0, 40, 10):
        engine.write(range(start, start + 10))
        feed.take(collector.collect(0.0).records)
        assert recorder.flush()
    recorder.close()
    trace = Trace.open(f"recording:{recording}")
    assert trace.n_requests == 40
    assert trace.input_tokens.tolist() == [72] * 40
    assert trace.n_blocks == 41
    assert trace.blocks_of(3).tolist() == [0, 4]
    assert trace.arrival_s[1] == pytest.approx(0.1)
