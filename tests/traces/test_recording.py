"""Recordings: exact round trips, segments, and refusal of what is none."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.core.errors import TraceError
from autotune.core.trace import Trace, TraceProvenance
from autotune.core.trace_hints import MAX_IDLE_S, RequestHints, TraceHints
from autotune.traces.recording import write_recording

TEXT = st.text(max_size=8)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(lambda pairs: tuple(sorted(pairs)))
COUNTS = st.lists(st.tuples(TEXT, st.integers(1, 10**12)), max_size=3).map(lambda pairs: tuple(sorted(pairs)))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any valid trace, also slices with ids that are not dense and times that do not begin at 0."""
    n = draw(st.integers(1, 6))
    n_blocks = draw(st.integers(1, 50))
    blocks = draw(st.lists(st.lists(st.integers(0, n_blocks - 1), max_size=5), min_size=n, max_size=n))
    reasons = tuple(draw(st.lists(TEXT, max_size=3, unique=True)))
    size = st.integers(0, 2**31 - 1)

    def column(values: st.SearchStrategy[int]) -> Any:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)), np.int32)

    return Trace(
        arrival_s=np.sort(np.array(draw(st.lists(st.floats(0, 1e9), min_size=n, max_size=n)))),
        input_tokens=column(size),
        output_tokens=column(size),
        session=column(st.integers(-1, 2**31 - 1)),
        stop_reason=column(st.integers(-1, len(reasons) - 1)),
        block_offsets=np.cumsum([0, *map(len, blocks)]).astype(np.int64),
        block_ids=np.array([block for each in blocks for block in each], np.int32),
        n_blocks=n_blocks,
        block_tokens=draw(st.integers(1, 4096)),
        provenance=TraceProvenance(
            draw(TEXT), tuple(draw(st.lists(TEXT, max_size=2))), draw(TEXT), draw(PAIRS), draw(COUNTS)
        ),
        tick_s=draw(st.floats(0, 1e3)),
        stop_reasons=reasons,
        hints=draw(st.none() | hints_of(n)),
    )


@st.composite
def hints_of(draw: st.DrawFn, n: int) -> TraceHints:
    """Any valid hints of so many requests."""
    hints = st.builds(
        RequestHints,
        session_end=st.integers(-1, 1),
        expected_idle_s=st.just(-1.0) | st.floats(0.0, MAX_IDLE_S),
        priority=st.integers(-1, 2**31 - 1),
    )
    return TraceHints.of(draw(st.lists(hints, min_size=n, max_size=n)))


def assert_equal(one: Trace, other: Trace) -> None:
    """Every column and every other part is the same, down to types."""
    for field in fields(Trace):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype, field.name
            assert before.tolist() == after.tolist(), field.name
        elif isinstance(before, TraceHints):
            for name in ("session_end", "expected_idle_s", "priority"):
                assert getattr(before, name).dtype == getattr(after, name).dtype, name
                assert getattr(before, name).tolist() == getattr(after, name).tolist(), name
        else:
            assert before == after, field.name


@given(traces())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_round_trip_is_exact(tmp_path: Path, trace: Trace) -> None:
    """What was written comes back equal, provenance included, and from the same bytes each time."""
    file = tmp_path / "t.parquet"
    write_recording(trace, file)
    first = file.read_bytes()
    assert_equal(trace, Trace.open(f"recording:{file}"))
    write_recording(trace, file)
    assert file.read_bytes() == first


@pytest.mark.parametrize(("start", "stop"), [(0, 32), (5, 20), (31, 32)])
def test_slices_round_trip(data: Path, tmp_path: Path, start: int, stop: int) -> None:
    """A part of a stream keeps its times, ids and the footprint of the whole."""
    part = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0291.json.gz").slice(start, stop)
    write_recording(part, tmp_path / "t.parquet")
    assert_equal(part, Trace.open(f"recording:{tmp_path}/t.parquet"))


def test_arrivals_round_trip(data: Path, tmp_path: Path) -> None:
    """A trace without blocks can be recorded too."""
    trace = Trace.open(f"azure:{data}/azure/*.csv.gz")
    write_recording(trace, tmp_path / "t.parquet")
    assert_equal(trace, Trace.open(f"recording:{tmp_path}/t.parquet"))


def test_columns_can_be_written_to(data: Path, tmp_path: Path) -> None:
    """Columns are ordinary arrays, as those of every other reader are: compiled code distinguishes read-only ones."""
    write_recording(Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0504.json.gz"), tmp_path / "t.parquet")
    trace = Trace.open(f"recording:{tmp_path}/t.parquet")
    arrays = [getattr(trace, field.name) for field in fields(Trace)]
    assert all(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))


def test_folder_of_segments_is_one_stream(data: Path, tmp_path: Path) -> None:
    """Segments written in order join to the whole, with its provenance where they agree about it."""
    trace = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0291.json.gz")
    for number, start in enumerate(range(0, 32, 10)):
        write_recording(trace.slice(start, start + 10), tmp_path / f"{number}.parquet")
    assert_equal(trace, Trace.open(f"recording:{tmp_path}"))


def test_segments_of_different_origin_get_their_own_provenance(data: Path, tmp_path: Path) -> None:
    """Where segments disagree about their origin, the stream's provenance is the segments themselves."""
    trace = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0291.json.gz")
    write_recording(trace.slice(0, 9), tmp_path / "a.parquet")
    other = replace(trace.slice(9, 32), provenance=replace(trace.provenance, sha256="1" * 64))
    write_recording(other, tmp_path / "b.parquet")
    origin = Trace.open(f"recording:{tmp_path}").provenance
    assert (origin.trace_format, origin.paths) == ("recording", ("a.parquet", "b.parquet"))


def test_segments_that_do_not_fit_are_refused(data: Path, tmp_path: Path) -> None:
    """Segments out of order, or of other blocks, are no stream."""
    trace = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0291.json.gz")
    write_recording(trace.slice(9, 32), tmp_path / "a.parquet")
    write_recording(trace.slice(0, 9), tmp_path / "b.parquet")
    with pytest.raises(TraceError, match="order of time"):
        Trace.open(f"recording:{tmp_path}")
    write_recording(replace(trace, block_tokens=128), tmp_path / "b.parquet")
    with pytest.raises(TraceError, match="agree in block size"):
        Trace.open(f"recording:{tmp_path}")


def test_failed_write_leaves_the_old_file(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is replaced whole or not at all, and nothing half-written stays behind."""
    trace = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0504.json.gz")
    file = tmp_path / "t.parquet"
    write_recording(trace, file)
    before = file.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(TraceError, match="no space left"):
        write_recording(trace.slice(0, 1), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_place_that_cannot_be_written_is_refused(data: Path, tmp_path: Path) -> None:
    """A missing folder is an error of the user's making."""
    trace = Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0504.json.gz")
    with pytest.raises(TraceError, match="can be written"):
        write_recording(trace, tmp_path / "no" / "t.parquet")


def _change_header(table: Any, **changes: object) -> Any:
    header = json.loads(table.schema.metadata[b"kv-autotune"]) | changes
    return table.replace_schema_metadata({b"kv-autotune": json.dumps(header).encode()})


def _change_column(table: Any, name: str, values: list[Any]) -> Any:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace_schema_metadata({}), "metadata must hold"),
        (lambda t: t.replace_schema_metadata({b"kv-autotune": b"\xff"}), "UTF-8"),
        (lambda t: _change_header(t, schema="kv-autotune/recording/v2"), "schema must be"),
        (lambda t: _change_header(t, n_blocks=2), "below the footprint"),
        (lambda t: _change_header(t, n_blocks=-1), "n_blocks must be from"),
        (lambda t: _change_header(t, block_tokens=0), "arrivals only"),
        (lambda t: _change_header(t, tick_s="1"), "tick_s must be a number"),
        (lambda t: _change_header(t, stop_reasons=[]), "stop_reason"),
        (lambda t: _change_header(t, stop_reasons=[1]), "must be text"),
        (lambda t: _change_header(t, provenance=None), "provenance"),
        (lambda t: _change_header(t, provenance={"trace_format": "x"}), "must be given"),
        (lambda t: t.drop_columns(["session"]), "columns must be"),
        (lambda t: t.slice(0, 0), "at least one request"),
        (lambda t: _change_column(t, "arrival_s", [0.0, 2.0, 1.0]), "go back"),
        (lambda t: _change_column(t, "arrival_s", [0.0, 1.0, float("nan")]), "finite"),
        (lambda t: _change_column(t, "input_tokens", [0, 1, -1]), "token counts"),
        (lambda t: _change_column(t, "session", [0, 1, -2]), "session"),
        (lambda t: _change_column(t, "block_ids", [[-1], [], []]), "below the footprint"),
    ],
)
def test_recording_that_breaks_a_rule_is_refused(data: Path, tmp_path: Path, change: Any, message: str) -> None:
    """What the rest of the project trusts about columns is checked when they come from a file."""
    file = tmp_path / "t.parquet"
    write_recording(Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0504.json.gz"), file)
    pq.write_table(change(pq.read_table(file)), file)
    with pytest.raises(TraceError, match=message):
        Trace.open(f"recording:{file}")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100, b"{}"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is no Parquet is refused, whatever is to be done about malformed rows."""
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceError, match="must be a recording"):
        Trace.open(f"recording:{tmp_path}/t", on_error="skip")
