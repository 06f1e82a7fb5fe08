"""A folder of segments as a trace: the same bytes whatever form they have, one epoch at a time, and no silent gap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rolling_samples import FACTS, hinted, record, recorder, request

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.core.trace_hints import RequestHints
from autotune.traces.compact import compact, main
from autotune.traces.recording import write_recording
from autotune.traces.rolling.epochs import EvidenceGrade, segments_of
from autotune.traces.rolling.journal import FACTS as FACTS_FRAME
from autotune.traces.rolling.journal import REQUEST, WORD, frames


def same(one: Trace, other: Trace) -> bool:
    """Whether two traces are equal to the last bit, provenance included."""
    columns = ("arrival_s", "input_tokens", "output_tokens", "session", "stop_reason", "block_offsets", "block_ids")
    return one.provenance == other.provenance and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in columns
    )


def test_parquet_and_journal_are_the_same_trace(tmp_path: Path) -> None:
    """Before, during and after compaction a reader gets the same bytes."""
    record(tmp_path, range(200))
    before = Trace.open(f"recording:{tmp_path}")
    done = compact(tmp_path)
    assert (done.written, done.held, done.damaged) == (len(segments_of(tmp_path)), 0, ())
    assert {path.suffix for path in segments_of(tmp_path).values()} == {".parquet"}
    assert same(Trace.open(f"recording:{tmp_path}"), before)
    assert compact(tmp_path).written == 0


def test_hints_survive_both_forms(tmp_path: Path) -> None:
    """What clients told comes back from journals and from Parquet, in segments that have some and in those without."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    told = [hinted(number) if number >= 100 else request(number) for number in range(200)]
    for each in told:
        writer.append(each)
    writer.close()
    before = Trace.open(f"recording:{tmp_path}")
    compact(tmp_path)
    after = Trace.open(f"recording:{tmp_path}")
    assert same(before, after)
    for trace in (before, after):
        assert trace.hints is not None
        assert trace.hints.session_end.tolist() == [each.hints.session_end for each in told]
        assert trace.hints.expected_idle_s.tolist() == [each.hints.expected_idle_s for each in told]
        assert trace.hints.priority.tolist() == [each.hints.priority for each in told]
    kinds = {len(pq.read_schema(path).names) for path in segments_of(tmp_path).values()}
    assert kinds == {8, 11}


def test_without_hints_the_files_are_those_of_before(tmp_path: Path) -> None:
    """Where nobody told anything, a journal has no other frames and a trace no hints, so that old files stay valid."""
    record(tmp_path, range(20))
    (path,) = segments_of(tmp_path).values()
    assert {frame[:1] for frame in frames(path.read_bytes())} == {FACTS_FRAME, WORD, REQUEST}
    assert Trace.open(f"recording:{tmp_path}").hints is None


@pytest.mark.parametrize(
    "told",
    [RequestHints(2), RequestHints(-2), RequestHints(expected_idle_s=-0.5), RequestHints(expected_idle_s=float("inf"))],
)
def test_hints_that_mean_nothing_are_not_written(tmp_path: Path, told: RequestHints) -> None:
    """Such a request counts as lost, and what comes next is of another epoch."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    writer.append(replace(request(0), hints=told))
    assert writer.lost == 1
    writer.close()


def test_parquet_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Two recordings of the same requests become the same files."""
    for folder in (tmp_path / "a", tmp_path / "b"):
        record(folder, range(100))
        compact(folder)
    files = [sorted(each.glob("*.parquet")) for each in (tmp_path / "a", tmp_path / "b")]
    assert len(files[0]) > 1
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_a_journal_that_is_written_is_left_alone(tmp_path: Path) -> None:
    """Compaction beside a writer takes the closed segments only, and the age of a segment stays."""
    writer = recorder(tmp_path)
    writer.begin_epoch(FACTS)
    for number in range(100):
        writer.append(request(number))
        assert writer.flush()
    ages = {name: path.stat().st_mtime_ns for name, path in segments_of(tmp_path).items()}
    assert writer.has_work()
    assert main([str(tmp_path)]) == 0
    assert not writer.has_work()
    kinds = [path.suffix for path in segments_of(tmp_path).values()]
    assert kinds == [".parquet"] * (len(kinds) - 1) + [".journal"]
    assert {name: path.stat().st_mtime_ns for name, path in segments_of(tmp_path).items()} == ages
    writer.append(request(100))
    writer.close()
    assert Trace.open(f"recording:{tmp_path}").n_requests == 101


def test_the_newest_epoch_that_is_long_enough_is_read(tmp_path: Path) -> None:
    """The newest of at least so many requests, else the one with most, and provenance says which."""
    for run, count in enumerate((30, 50, 10)):
        record(tmp_path, range(count), seed=run)
    for min_requests, epoch in ((1, "3"), (10, "3"), (11, "2"), (50, "2"), (1_000, "2")):
        trace = Trace.open(f"recording:{tmp_path}", min_requests=min_requests)
        assert dict(trace.provenance.options)["epoch"] == epoch
    with pytest.raises(TraceError, match=r"1 \(30 requests\), 2 \(50 requests\), 3 \(10 requests\)"):
        Trace.open(f"recording:{tmp_path}", epoch=7)


def test_separate_epochs_share_nothing(tmp_path: Path) -> None:
    """The same requests twice: twice as many blocks and sessions, times that go on, and nothing reused across."""
    record(tmp_path, range(40))
    record(tmp_path, range(40))
    record(tmp_path, range(40), facts=replace(FACTS, model="other"))
    record(tmp_path, range(40))
    one = Trace.open(f"recording:{tmp_path}", epoch=1)
    both = Trace.open(f"recording:{tmp_path}", epoch="separate")
    assert both.provenance.paths == ("epoch-0001", "epoch-0002", "epoch-0004")
    assert both.n_requests == 3 * one.n_requests
    assert both.n_blocks == 3 * one.n_blocks
    halves = [both.slice(start, start + 40) for start in (0, 40, 80)]
    assert len({*map(int, halves[0].block_ids)} & {*map(int, halves[1].block_ids)}) == 0
    assert np.all(np.diff(both.arrival_s) >= 0)
    known = [set(part.session[part.session >= 0].tolist()) for part in halves]
    assert known[0].isdisjoint(known[1])


def test_events_alone_are_no_trace(tmp_path: Path) -> None:
    """A stock engine's epochs are refused with what is missing and what to do; telemetry beside them is read."""
    record(tmp_path, range(40), facts=replace(FACTS, grade=EvidenceGrade.EVENTS_ONLY))
    with pytest.raises(TraceError, match=r"device emit none.*events_only.*plug-in.*doctor"):
        Trace.open(f"recording:{tmp_path}")
    record(tmp_path, range(5))
    record(tmp_path, range(50), facts=replace(FACTS, grade=EvidenceGrade.EVENTS_ONLY))
    assert Trace.open(f"recording:{tmp_path}").n_requests == 5


def test_a_segment_that_is_missing_or_cut_in_the_middle_is_refused(tmp_path: Path) -> None:
    """A gap that the recorder did not make is an error that names the file; the last one may be cut."""
    record(tmp_path, range(200))
    whole = Trace.open(f"recording:{tmp_path}").n_requests
    paths = list(segments_of(tmp_path).values())
    content = paths[-1].read_bytes()
    paths[-1].write_bytes(content[:-3])
    assert Trace.open(f"recording:{tmp_path}").n_requests == whole - 1
    middle = paths[1].read_bytes()
    paths[1].write_bytes(middle[:-3])
    with pytest.raises(TraceError, match=r"seg-0002.*whole"):
        Trace.open(f"recording:{tmp_path}")
    paths[1].unlink()
    with pytest.raises(TraceError, match="all segments"):
        Trace.open(f"recording:{tmp_path}")
    paths[0].unlink()
    assert 0 < Trace.open(f"recording:{tmp_path}").n_requests < whole


def test_damage_is_refused_by_name(tmp_path: Path) -> None:
    """A Parquet segment with other content is an error; a journal that never had a header is passed over."""
    record(tmp_path, range(60))
    compact(tmp_path)
    (tmp_path / "epoch-0002-seg-0001.journal").write_bytes(b"KVA")
    assert Trace.open(f"recording:{tmp_path}").n_requests == 60
    first = next(iter(segments_of(tmp_path).values()))
    first.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(TraceError, match="seg-0001"):
        Trace.open(f"recording:{tmp_path}")


def test_a_damaged_journal_stays_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compaction goes on with the others and ends with status 1."""
    record(tmp_path, range(60))
    first, second, *_ = segments_of(tmp_path).values()
    from autotune.traces.rolling.journal import MAGIC, framed

    first.write_bytes(MAGIC + framed(b"Rnonsense"))
    assert main([str(tmp_path)]) == 1
    assert first.exists()
    assert second.with_suffix(".parquet").exists()
    assert "facts" in capsys.readouterr().err


def test_options_of_a_folder_belong_to_a_folder(tmp_path: Path) -> None:
    """A single file has no epochs; an empty folder and an unknown option are refused."""
    record(tmp_path / "r", range(20))
    trace = Trace.open(f"recording:{tmp_path / 'r'}")
    write_recording(trace, tmp_path / "one.parquet")
    again = Trace.open(f"recording:{tmp_path / 'one.parquet'}")
    assert again.provenance == trace.provenance
    with pytest.raises(TraceError, match="sidecar"):
        Trace.open(f"recording:{tmp_path / 'one.parquet'}", epoch=1)
    with pytest.raises(TraceError, match="min_requests"):
        Trace.open(f"recording:{tmp_path / 'r'}", min_requests=-1)
    writer = recorder(tmp_path / "empty")
    writer.begin_epoch(FACTS)
    with pytest.raises(TraceError):
        Trace.open(f"recording:{tmp_path / 'empty'}")
