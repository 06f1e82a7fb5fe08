"""Hints of clients in a trace: read from rows, kept through everything that is done to a trace, and optional."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.core.trace_hints import RequestHints, TraceHints
from autotune.traces.coarsen import coarsen
from autotune.traces.merge import merge_sessions
from autotune.traces.recording import HINTED_SCHEMA, SCHEMA, write_recording
from autotune.traces.stats import describe

TOLD = {"session_end": True, "expected_idle_s": 40, "priority": 2}
ROWS: list[dict[str, Any]] = [{}, {"kv_autotune": TOLD}, {"kv_autotune": {"session_end": False}}, {"kv_autotune": None}]


def mooncake(folder: Path, extras: list[dict[str, Any]] | None = None, start: int = 0) -> str:
    """A trace of the mooncake format with these objects in its rows."""
    rows = [
        {"timestamp": 1000 * i, "input_length": 1024, "output_length": 5, "hash_ids": [start, start + i + 1], **extra}
        for i, extra in enumerate(ROWS if extras is None else extras)
    ]
    path = folder / f"{start}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return f"mooncake:{path}"


def rows_of(trace: Trace) -> list[RequestHints]:
    """The hints of each request."""
    hints = trace.hints
    assert hints is not None
    assert hints.faults == ()
    assert len(hints) == trace.n_requests
    columns = (hints.session_end.tolist(), hints.expected_idle_s.tolist(), hints.priority.tolist())
    return [RequestHints(*values) for values in zip(*columns, strict=True)]


ALL = [RequestHints(), RequestHints(1, 40.0, 2), RequestHints(0), RequestHints()]


def test_rows_may_have_hints(tmp_path: Path) -> None:
    """What a row does not tell is unknown, and so is every hint of a row without any."""
    assert rows_of(Trace.open(mooncake(tmp_path))) == ALL


def test_token_ids_are_sorted_with_their_hints(tmp_path: Path) -> None:
    """Where a format sorts its rows, hints go with their requests."""
    rows = [
        {"arrival_time_ns": time, "input_tok_ids": list(range(40)), "output_toks": 3, **extra}
        for time, extra in zip((30, 20, 10, 0), ROWS, strict=True)
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert rows_of(Trace.open(f"token-ids:{path}")) == ALL[::-1]


def test_a_trace_without_hints_has_none(tmp_path: Path) -> None:
    """Then there is no column at all, and nothing about them in what is told of the trace."""
    trace = Trace.open(mooncake(tmp_path, [{}, {}]))
    assert trace.hints is None
    assert describe(trace).hints is None


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (7, "kv_autotune must be an object"),
        ({"session_end": 1}, "session_end must be true or false"),
        ({"expected_idle_s": -1}, "expected_idle_s must be from 0 to"),
        ({"expected_idle_s": "soon"}, "expected_idle_s must be a number"),
        ({"priority": 1.5}, "priority must be an integer"),
        ({"priority": -1}, "priority must be from 0"),
    ],
)
def test_hints_that_mean_nothing_are_malformed(tmp_path: Path, told: object, message: str) -> None:
    """A row with such a hint names its rule, and is left out where malformed rows are."""
    source = mooncake(tmp_path, [{}, {"kv_autotune": told}])
    with pytest.raises(TraceError, match=message):
        Trace.open(source)
    assert Trace.open(source, on_error="skip").n_requests == 1


def test_hints_stay_with_their_requests(tmp_path: Path) -> None:
    """Slicing and larger blocks change nothing about them; merging with a trace without any leaves that one unknown."""
    trace = Trace.open(mooncake(tmp_path))
    assert rows_of(trace.slice(1, 3)) == ALL[1:3]
    assert rows_of(coarsen(trace, 1024)) == ALL
    merged = merge_sessions([trace, Trace.open(mooncake(tmp_path, [{}, {}], start=100))], span_s=100.0, seed=1)
    assert [row for row in rows_of(merged) if row != RequestHints()] == ALL[1:3]
    assert merged.n_requests == 6


def test_a_recording_has_columns_only_for_what_was_told(tmp_path: Path) -> None:
    """Without hints a recording is what it was before there were any; segments of both kinds are read as one."""
    told, silent = Trace.open(mooncake(tmp_path)), Trace.open(mooncake(tmp_path, [{}, {}]))
    write_recording(silent, tmp_path / "a.parquet")
    write_recording(told.slice(0, 2), tmp_path / "b.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").remove_metadata() == SCHEMA
    assert pq.read_schema(tmp_path / "b.parquet").remove_metadata() == HINTED_SCHEMA
    assert Trace.open(f"recording:{tmp_path / 'a.parquet'}").hints is None
    first, second = told.slice(0, 2), told.slice(2, 4)
    folder = tmp_path / "both"
    folder.mkdir()
    write_recording(Trace.open(mooncake(tmp_path, [{}, {}])).slice(0, 1), folder / "0.parquet")
    write_recording(first, folder / "1.parquet")
    write_recording(second, folder / "2.parquet")
    assert rows_of(Trace.open(f"recording:{folder}")) == [RequestHints(), *ALL]


def test_a_recording_with_impossible_hints_is_refused(tmp_path: Path) -> None:
    """Columns come from a file, so they are checked like all others."""
    trace = Trace.open(mooncake(tmp_path))
    assert trace.hints is not None
    trace.hints.session_end[0] = 2
    write_recording(trace, tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="session_end must be -1, 0 or 1"):
        Trace.open(f"recording:{tmp_path / 't.parquet'}")


def test_what_was_told_is_counted(tmp_path: Path) -> None:
    """Requests with each hint, how many end their session, and the usual idle time."""
    stats = describe(Trace.open(mooncake(tmp_path))).hints
    assert stats is not None
    assert (stats.session_end_told, stats.session_ends) == (2, 1)
    assert (stats.expected_idle_told, stats.expected_idle_p50_s, stats.priority_told) == (1, 40.0, 1)


def test_nothing_joined_is_nothing() -> None:
    """Parts of which none has hints have none together."""
    assert TraceHints.joined([(None, 3), (None, 0)]) is None
    assert TraceHints.joined([]) is None
    joined = TraceHints.joined([(None, 2), (TraceHints.of([RequestHints(1)]), 1)])
    assert joined is not None
    assert np.array_equal(joined.session_end, [-1, -1, 1])
