"""A recording keeps what was confirmed, stays within its bounds, and never mixes epochs."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rolling_samples import FACTS, SMALL, record, recorder, request

from autotune.core.errors import TraceError
from autotune.core.telemetry.wire import EpochCause
from autotune.core.trace import Trace
from autotune.testing.clocks import ManualClock
from autotune.traces.rolling.epochs import RecordedRequest, segments_of
from autotune.traces.rolling.manifest import Manifest
from autotune.traces.rolling.recorder import RecordingBounds


@contextmanager
def no_room_beyond(n_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_request_comes_back_as_it_was_told(tmp_path: Path) -> None:
    """Times, tokens, blocks, sessions and stop reasons of a trace are those of the requests."""
    record(tmp_path, range(50))
    trace = Trace.open(f"recording:{tmp_path}")
    asked = [request(number) for number in range(50)]
    assert trace.arrival_s.tolist() == [each.time_s for each in asked]
    assert trace.input_tokens.tolist() == [each.input_tokens for each in asked]
    assert trace.output_tokens.tolist() == [each.output_tokens for each in asked]
    reasons = [trace.stop_reasons[reason] if reason >= 0 else "" for reason in trace.stop_reason]
    assert reasons == [each.stop_reason for each in asked]
    assert trace.block_tokens == 32
    dense: dict[int, int] = {}
    for number, each in enumerate(asked):
        expected = [dense.setdefault(block, len(dense)) for block in each.block_ids]
        assert trace.blocks_of(number).tolist() == expected
    assert trace.n_blocks == len(dense)
    sessions: dict[int, int] = {-1: -1}
    assert trace.session.tolist() == [sessions.setdefault(each.session, len(sessions) - 1) for each in asked]


def test_what_was_flushed_is_readable_while_it_is_written(tmp_path: Path) -> None:
    """A reader beside the writer sees all that was confirmed, from open and closed segments."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    for number in range(120):
        writer.append(request(number))
        if number % 7 == 0:
            assert writer.flush()
            assert Trace.open(f"recording:{tmp_path}").n_requests == number + 1
    assert len(segments_of(tmp_path)) > 2
    writer.close()


def test_what_ends_an_epoch_is_never_joined(tmp_path: Path) -> None:
    """Each new epoch is a trace of its own, and each writer begins one."""
    for run in range(3):
        record(tmp_path, range(10 * (run + 1)), seed=run)
    for epoch in (1, 2, 3):
        trace = Trace.open(f"recording:{tmp_path}", epoch=epoch)
        assert trace.n_requests == 10 * epoch
        assert trace.provenance.paths == (f"epoch-000{epoch}",)
        assert ("epoch", str(epoch)) in trace.provenance.options


def test_the_folder_stays_within_its_bytes_and_the_oldest_go(tmp_path: Path) -> None:
    """Whatever is written, all files together stay below the bound; what is left is the newest, without a gap."""
    bounds = RecordingBounds(max_bytes=64 * 1024, segment_bytes=4_096, segment_s=1e9)
    writer = recorder(tmp_path, bounds=bounds)
    writer.begin_epoch(FACTS)
    for number in range(1_500):
        writer.append(request(number))
        if number % 10 == 9:
            assert writer.flush()
            size = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name != "manifest.json")
            assert size <= bounds.max_bytes
    writer.close()
    trace = Trace.open(f"recording:{tmp_path}")
    kept = trace.n_requests
    assert 100 < kept < 1_500
    assert trace.input_tokens.tolist() == [request(number).input_tokens for number in range(1_500 - kept, 1_500)]
    assert trace.arrival_s[0] == 0.0


def test_old_segments_go(tmp_path: Path) -> None:
    """A segment beyond the age is deleted when the next one begins; younger ones stay."""
    record(tmp_path, range(10), seed=1)
    record(tmp_path, range(20), seed=2)
    clock = ManualClock()
    long_ago = clock.utc_now().timestamp() - 1_000.0
    for name, path in segments_of(tmp_path).items():
        age = long_ago - 10_000.0 if name.epoch == 1 else long_ago
        os.utime(path, (age, age))
    writer = recorder(tmp_path, clock, RecordingBounds(max_bytes=2**20, max_age_s=5_000.0))
    writer.begin_epoch(FACTS)
    writer.append(request(0))
    assert writer.flush()
    writer.close()
    assert {name.epoch for name in segments_of(tmp_path)} == {2, 3}
    assert [epoch.epoch for epoch in Manifest.open(tmp_path).epochs] == [2, 3]


def test_a_segment_is_closed_when_it_is_old(tmp_path: Path) -> None:
    """After its time the next request begins another segment of the same epoch."""
    clock = ManualClock()
    writer = recorder(tmp_path, clock, replace(SMALL, segment_s=60.0))
    writer.begin_epoch(FACTS)
    for number in range(3):
        writer.append(request(number))
        assert writer.flush()
        clock.advance(61.0)
        assert writer.flush()
    assert [(name.epoch, name.number) for name in segments_of(tmp_path)] == [(1, 1), (1, 2), (1, 3)]
    assert Trace.open(f"recording:{tmp_path}").n_requests == 3


def test_a_full_disk_loses_requests_and_no_sense(tmp_path: Path) -> None:
    """What cannot be written is counted; what can be written again is another epoch; what was confirmed stays."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    writer.append(request(0))
    assert writer.flush()
    with no_room_beyond(600):
        for number in range(1, 40):
            writer.append(request(number))
        assert not writer.flush()
    assert (writer.lost, bool(writer.error)) == (39, True)
    for number in range(40, 45):
        writer.append(request(number))
    assert writer.flush()
    assert writer.error is None
    writer.close()
    assert Trace.open(f"recording:{tmp_path}", epoch=1).n_requests == 1
    after = Trace.open(f"recording:{tmp_path}", epoch=2)
    assert after.n_requests == 5
    assert Manifest.open(tmp_path).epochs[-1].facts.cause is EpochCause.LOST


def test_a_folder_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    """Where the folder is gone, requests are lost one by one and nothing is raised."""
    folder = tmp_path / "gone"
    writer = recorder(folder)
    writer.begin_epoch(FACTS)
    folder.rmdir()
    for number in range(3):
        writer.append(request(number))
        assert not writer.flush()
    assert writer.lost == 3


@pytest.mark.parametrize(
    "odd",
    [
        RecordedRequest(float("nan"), 1, 1, [1]),
        RecordedRequest(float("inf"), 1, 1, [1]),
        RecordedRequest(0.0, -1, 1, [1]),
        RecordedRequest(0.0, 2**31, 1, [1]),
        RecordedRequest(0.0, 1, 1, [-1]),
        RecordedRequest(0.0, 1, 1, [2**64]),
        RecordedRequest(0.0, 1, 1, [1], session=2**63),
    ],
)
def test_a_request_that_makes_no_sense_ends_the_epoch(tmp_path: Path, odd: RecordedRequest) -> None:
    """It is counted as lost, those before it are kept, and those after it are of another epoch."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    writer.append(replace(request(0), stop_reason="stop"))
    writer.append(replace(odd, stop_reason="a new word"))
    writer.append(replace(request(1), stop_reason="length"))
    writer.close()
    assert writer.lost == 1
    for epoch, word in ((1, "stop"), (2, "length")):
        trace = Trace.open(f"recording:{tmp_path}", epoch=epoch)
        assert (trace.n_requests, trace.stop_reasons) == (1, (word,))


def test_time_never_goes_back(tmp_path: Path) -> None:
    """A request that is told an earlier time counts as of the one before it."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    for time_s in (5.0, 2.0, 9.0):
        writer.append(replace(request(0), time_s=time_s))
    writer.close()
    assert Trace.open(f"recording:{tmp_path}").arrival_s.tolist() == [0.0, 0.0, 4.0]


def test_stop_reasons_are_few_short_words(tmp_path: Path) -> None:
    """Whatever an engine says there, no long text and no unbounded list of words is kept."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    for number in range(100):
        writer.append(replace(request(number), stop_reason=f"reason {number}"))
    writer.append(replace(request(100), stop_reason="a long text " * 10))
    writer.append(replace(request(101), stop_reason="two\nlines"))
    writer.close()
    words = Trace.open(f"recording:{tmp_path}").stop_reasons
    assert all(len(word) <= 32 and word.isprintable() for word in words)
    assert "other" in words
    per_segment = 17
    assert len(words) <= per_segment * len(segments_of(tmp_path))


def test_no_epoch_no_request(tmp_path: Path) -> None:
    """A request before the first epoch is refused."""
    with pytest.raises(TraceError, match="begin_epoch"):
        recorder(tmp_path).append(request(0))


def test_the_manifest_says_what_there_is(tmp_path: Path) -> None:
    """Epochs, causes, facts and counts are in it; a damaged one is begun anew and no number is used twice."""
    record(tmp_path, range(10))
    record(tmp_path, range(20), facts=replace(FACTS, cause=EpochCause.RESTARTED, model="other"))
    told = json.loads((tmp_path / "manifest.json").read_text())
    assert [(e["epoch"], e["cause"], e["model"], e["requests"]) for e in told["epochs"]] == [
        (1, "attached", "tiny", 10),
        (2, "restarted", "other", 20),
    ]
    (tmp_path / "manifest.json").write_text('{"epochs": [{"epoch": 0}]')
    record(tmp_path, range(5))
    assert {name.epoch for name in segments_of(tmp_path)} == {1, 2, 3}


def test_an_epoch_without_requests_leaves_nothing(tmp_path: Path) -> None:
    """Beginning an epoch writes no file."""
    writer = recorder(tmp_path)
    for _ in range(5):
        writer.begin_epoch(FACTS)
    assert writer.flush()
    writer.close()
    assert segments_of(tmp_path) == {}


def test_recording_loads_nothing_heavy() -> None:
    """The process that records has neither pyarrow nor anything else of the tuner."""
    code = "import autotune.traces.rolling.feed, autotune.traces.rolling.recorder, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "numba", "optuna", "sklearn", "scipy"} & set(loaded)
