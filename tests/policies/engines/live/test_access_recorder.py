"""Records leave the engine complete, or counted and set apart by an epoch."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.errors import TraceError
from autotune.core.telemetry.reading import FrameReader
from autotune.core.telemetry.segments import read_segments, read_transfers, segments_in
from autotune.core.telemetry.wire import ACCESS, TransferRecord
from autotune.core.types import Tier
from autotune.testing.clocks import ManualClock
from autotune_policies.engines.live.record_stream import RecordStream, split_key
from autotune_policies.engines.live.records import (
    AccessRecorder,
    Direction,
    RequestAccess,
    Run,
    StreamFacts,
    Transfer,
)
from autotune_policies.engines.live.segments import SegmentWriter
from autotune_policies.engines.live.targets import TelemetryTarget

pytestmark = pytest.mark.engine("msgspec")
FACTS = StreamFacts("vllm 0.32.0", "tiny", 32, 1024, n_groups=2)
SECOND_NS = 10**9
BIG = 2**25


def key(number: int, group: int = 0) -> bytes:
    """A key of an engine: 32 bytes of hash, 4 bytes of group."""
    return number.to_bytes(32, "big") + group.to_bytes(4, "big")


def access(request: int, *, time_s: float = 0.0, n_keys: int = 3) -> RequestAccess:
    """A request that found nothing."""
    keys = tuple(key(request * 1_000 + depth) for depth in range(n_keys))
    return RequestAccess(1_000 * SECOND_NS + round(time_s * SECOND_NS), request, -1, (Run(keys, 0, 96, None),))


def header_frame() -> bytes:
    """The header that a stream begins with."""
    sink = ListSink()
    RecordStream(FACTS, sink, ManualClock()).write(access(0), breaks=0)
    return sink.frames[0]


class ListSink:
    """Keeps frames, asks for no header, and fails when told to."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_broken = False

    def needs_header(self, frame_bytes: int) -> bool:
        """Never of itself."""
        return False

    def write(self, frame: bytes) -> None:
        """Keep it."""
        if self.is_broken:
            raise OSError("disk full")
        self.frames.append(frame)

    def close(self) -> None:
        """Nothing to let go of."""


def read_all(frames: list[bytes], group: int = 0) -> list[Any]:
    """The records in these frames."""
    reader = FrameReader(group)
    return [record for frame in frames for record in reader.read(frame)]


def test_a_record_comes_back_as_it_was_told(tmp_path: Path) -> None:
    """Every field of a run survives: ids as KV events carry them, depth, tier, bytes, seconds and features."""
    features = AccessFeatures(1.5, 2.0, 0.25, 7, "stop", 3, ((1, (0.5, -1.0)), (1, (2.0, 3.0))))
    hit = Run((key(2**70 + 5), key(6)), 4, 64, Tier.HOST, 65_536, 0.002, features)
    miss = Run((key(7),), 6, 32, None, 32_768, 0.01)
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(f"file:{tmp_path}"), BIG, ManualClock())
    recorder.access(RequestAccess(1_000 * SECOND_NS, 11, 5, (hit, miss)))
    recorder.access(access(12, time_s=1.5))
    recorder.transfer(Transfer(1_002 * SECOND_NS, Direction.LOAD, 65_536, 0.002))
    recorder.close()
    first, second, third = read_segments(tmp_path)
    assert first == AccessRecord(0.0, 0, 11, 5, (5, 6), 4, 64, Tier.HOST, 65_536, 0.002, features)
    assert second == AccessRecord(0.0, 0, 11, 5, (7,), 6, 32, None, 32_768, 0.01)
    assert (third.time_s, third.request, third.epoch) == (1.5, 12, 0)
    assert list(read_transfers(tmp_path)) == [TransferRecord(2.0, 0, Direction.LOAD, 65_536, 0.002)]
    assert recorder.lost == 0


def test_records_of_earlier_writers_stay_readable() -> None:
    """A frame whose features end before what a learned rule knew is read; nothing is known of that."""
    import msgspec

    told = [1.5, None, 0.25, 7, "stop", 3]
    frame = [ACCESS, 0, 0, 0.0, 1, 2, [[0, 4, [5], 16, -1, 0, 0.0, told]]]
    (record,) = read_all([header_frame(), msgspec.msgpack.encode(frame)])
    assert record.features == AccessFeatures(1.5, None, 0.25, 7, "stop", 3)
    assert record.features.runs is None


def test_headers_of_earlier_writers_stay_readable() -> None:
    """A header without the kinds of layers is read; how many there are is not known."""
    import msgspec

    header = msgspec.msgpack.decode(header_frame())
    reader = FrameReader()
    assert reader.read(msgspec.msgpack.encode(header[:-1])) == []
    assert reader.facts == StreamFacts("vllm 0.32.0", "tiny", 32, 1024, n_groups=0)


def test_no_token_and_no_text_of_a_request_leaves(tmp_path: Path) -> None:
    """A frame holds 64 bits of each hash and never the whole key."""
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(f"file:{tmp_path}"), BIG, ManualClock())
    whole = bytes(range(100, 132)) + bytes(4)
    recorder.access(RequestAccess(0, 0, -1, (Run((whole,), 0, 32, None),)))
    recorder.close()
    data = segments_in(tmp_path)[0].read_bytes()
    assert whole[24:32] in data
    assert whole[23:32] not in data


@given(st.binary(min_size=8, max_size=32), st.integers(0, 2**32 - 1))
def test_a_key_is_split_as_the_engine_made_it(block_hash: bytes, group: int) -> None:
    """The id is the last 64 bits of the hash, as KV events carry it; the group is its last four bytes."""
    expected = int.from_bytes(block_hash, "big") & (2**64 - 1)
    assert split_key(block_hash + group.to_bytes(4, "big")) == (expected, group)


def test_runs_of_other_groups_are_told_apart() -> None:
    """A reader sees the group it asked for and no other."""
    sink = ListSink()
    stream = RecordStream(FACTS, sink, ManualClock())
    runs = tuple(Run((key(9, group),), 0, 32, Tier.DEVICE) for group in (0, 2))
    stream.write(RequestAccess(0, 1, -1, runs), breaks=0)
    assert len(read_all(sink.frames)) == len(read_all(sink.frames, group=2)) == 1
    assert read_all(sink.frames, group=1) == []


def test_a_full_queue_counts_and_begins_an_epoch(tmp_path: Path) -> None:
    """Records dropped for lack of room are counted, and what comes after them is in another epoch."""
    target = TelemetryTarget.parse(f"file:{tmp_path}")
    recorder = AccessRecorder(FACTS, target, BIG, ManualClock(), max_waiting_keys=100)
    for request in range(50):  # 19 keys' worth each; the thread looks only every tenth of a second
        recorder.access(access(request))
    lost = recorder.take_lost()
    assert lost > 0
    assert recorder.take_lost() == 0
    while recorder.lost == lost:
        recorder.access(access(99, time_s=9.0))
        if recorder.take_lost() == 0:
            break
        lost = recorder.lost
        threading.Event().wait(0.05)
    recorder.close()
    records = list(read_segments(tmp_path))
    assert records[0].epoch == 0
    assert records[-1].request == 99
    assert (records[-1].epoch, records[-1].time_s) == (1, 0.0)


def test_a_reset_begins_an_epoch(tmp_path: Path) -> None:
    """After begin_epoch, time starts anew and the epoch's number is higher."""
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(f"file:{tmp_path}"), BIG, ManualClock())
    for request in range(4):
        if request == 2:
            recorder.begin_epoch()
        recorder.access(access(request, time_s=request))
    recorder.close()
    assert [(record.epoch, record.time_s) for record in read_segments(tmp_path)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_frame_that_could_not_be_written_ends_its_epoch() -> None:
    """A full disk loses frames and no sense: the next one that gets through begins an epoch with a header."""
    sink = ListSink()
    stream = RecordStream(FACTS, sink, ManualClock())
    for request in range(6):
        sink.is_broken = request in {2, 3}
        try:
            stream.write(access(request), breaks=0)
        except OSError:
            assert sink.is_broken
    assert [(record.request, record.epoch) for record in read_all(sink.frames)] == [(0, 0), (1, 0), (4, 1), (5, 1)]


@given(st.sets(st.integers(0, 40)), st.integers(1, 10))
def test_readers_see_a_gap_for_every_missing_frame(missing: set[int], header_every: int) -> None:
    """Records on both sides of frames that never arrived are never in one epoch; none is invented or placed wrongly."""
    sink = ListSink()
    stream = RecordStream(FACTS, sink, ManualClock())
    sink.needs_header = lambda frame_bytes: len(sink.frames) % header_every == 0  # type: ignore[method-assign]
    for request in range(20):
        stream.write(access(request), breaks=request // 8)
    came = [frame for number, frame in enumerate(sink.frames) if number not in missing]
    records = read_all(came)
    for before, after in pairwise(records):
        follows = after.request == before.request + 1 and after.request % 8 != 0
        assert after.request > before.request
        assert after.epoch >= before.epoch
        assert (after.epoch == before.epoch) <= follows
    assert len({(record.epoch, record.time_s, record.request) for record in records}) == len(records)


def test_a_folder_of_segments_stays_within_its_bound(tmp_path: Path) -> None:
    """The oldest segments go, those of earlier runs first; other files stay; each segment can be read by itself."""
    max_bytes = 64 * 1024
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine")
    for run in range(3):
        clock = ManualClock()
        clock.advance(run * 60.0)
        stream = RecordStream(FACTS, SegmentWriter(tmp_path, max_bytes, clock), clock)
        for request in range(2_000):
            stream.write(access(run * 2_000 + request), breaks=0)
            if request % 100 == 0:
                assert sum(path.stat().st_size for path in segments_in(tmp_path)) <= max_bytes
        stream.close()
    records = list(read_segments(tmp_path))
    requests = [record.request for record in records]
    assert requests == list(range(requests[0], 6_000))
    assert requests[0] > 4_000
    assert {record.epoch for record in records} == {0}
    assert len(segments_in(tmp_path)) == 8
    assert stranger.read_text() == "mine"
    for segment in segments_in(tmp_path)[1:]:
        segment.unlink()
    assert len(list(read_segments(tmp_path))) > 50


def test_the_last_frame_torn_by_a_crash_is_left_out(tmp_path: Path) -> None:
    """A segment that ends within a frame is read up to there, and what follows is in another epoch."""
    for run in range(2):
        clock = ManualClock()
        clock.advance(run)
        stream = RecordStream(FACTS, SegmentWriter(tmp_path, BIG, clock), clock)
        for request in range(3):
            stream.write(access(10 * run + request), breaks=0)
        stream.close()
    torn = segments_in(tmp_path)[0]
    torn.write_bytes(torn.read_bytes()[:-1])
    assert [(record.request, record.epoch) for record in read_segments(tmp_path)] == [
        (0, 0), (1, 0), (10, 1), (11, 1), (12, 1)
    ]  # fmt: skip


def test_what_is_no_frame_is_an_error() -> None:
    """Bytes of another form are refused with a message."""
    for frame in (b"", b"\x00", b"\xc1", b"\x80", b"\x93\x01\x00\x00", b"\x94\x09\x00\x00\x00"):
        with pytest.raises(TraceError, match="frame"):
            read_all([header_frame(), frame])


@given(st.binary(max_size=60) | st.integers(0, 200).map(lambda cut: header_frame()[:cut]), st.booleans())
def test_any_bytes_are_records_or_our_error(frame: bytes, after_header: bool) -> None:
    """Whatever arrives, no other exception leaves the reader."""
    try:
        read_all([header_frame(), frame] if after_header else [frame])
    except TraceError as error:
        assert str(error)


@pytest.mark.parametrize("bad", [b"/dev/full", b"/proc/nothing"])
def test_an_output_that_fails_is_counted_and_never_raised(bad: bytes) -> None:
    """Where no file can be written, the scheduler sees no exception and every record counts as lost."""
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(f"file:{bad.decode()}"), BIG, ManualClock())
    for request in range(5):
        recorder.access(access(request))
    recorder.close()
    assert recorder.take_lost() == 5


def test_a_giant_record_is_counted_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """A frame larger than a segment is lost, which ends the epoch; the bound of the folder holds."""
    recorder = AccessRecorder(FACTS, TelemetryTarget.parse(f"file:{tmp_path}"), 64 * 1024, ManualClock())
    for request, n_keys in enumerate((3, 20_000, 3)):
        recorder.access(access(request, n_keys=n_keys))
    recorder.close()
    assert [(record.request, record.epoch) for record in read_segments(tmp_path)] == [(0, 0), (2, 1)]
    assert recorder.lost == 1


@pytest.mark.engine("msgspec", "zmq")
@pytest.mark.parametrize("where", ["ipc", "tcp"])
def test_a_subscriber_gets_what_is_published(tmp_path: Path, where: str, free_port: Callable[[], int]) -> None:
    """Three frames a message: topic, number of the message, record; the numbers have no gap."""
    import zmq

    place = f"ipc://{tmp_path}/socket" if where == "ipc" else f"tcp://127.0.0.1:{free_port()}"
    target = TelemetryTarget.parse(place)
    recorder = AccessRecorder(FACTS, target, BIG)
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.setsockopt(zmq.SUBSCRIBE, b"kv-autotune")
        subscriber.setsockopt(zmq.RCVTIMEO, 20)  # milliseconds
        subscriber.connect(target.endpoint)
        reader, numbers = FrameReader(), []
        records: list[AccessRecord] = []
        for request in range(2_000):
            if request % 10 == 0:
                recorder.begin_epoch()  # so that the late subscriber finds a header
            recorder.access(access(request, time_s=request))
            try:
                while True:
                    topic, number, frame = subscriber.recv_multipart()
                    assert topic == b"kv-autotune"
                    numbers.append(struct.unpack(">Q", number)[0])
                    records += [one for one in reader.read(frame) if isinstance(one, AccessRecord)]
            except zmq.Again:
                pass
            if len(records) >= 20:
                break
    recorder.close()
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    requests = [record.request for record in records]
    assert len(requests) >= 20
    assert requests == list(range(requests[0], requests[0] + len(requests)))
    assert recorder.lost == 0
    assert reader.facts == FACTS


@pytest.mark.engine("msgspec", "zmq")
def test_an_address_in_use_loses_records_and_nothing_else(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """Where the port is taken, records are counted as lost; nothing is raised and nothing hangs."""
    import zmq

    endpoint = f"tcp://127.0.0.1:{free_port()}"
    with zmq.Context() as context, context.socket(zmq.PUB) as other:
        other.bind(endpoint)
        recorder = AccessRecorder(FACTS, TelemetryTarget.parse(endpoint), BIG)
        recorder.access(access(0))
        recorder.close()
        assert recorder.take_lost() == 1
