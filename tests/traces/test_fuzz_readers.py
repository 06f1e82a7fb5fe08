"""Readers against arbitrary content: they give a valid trace or a ``TraceError``, nothing else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.recording import write_recording

FORMATS = ("azure", "kv-cache-tester", "libcachesim-csv", "lmcache-agent", "mooncake", "recording", "token-ids")
HEADERS = {"azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "libcachesim-csv": b"time,id\n"}
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 200)
    | st.floats()
    | st.text(max_size=80)
    | st.sampled_from([2**31, 2**63, -1, 1e308, "", "subagent"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=2)
)
NAMES = st.sampled_from(
    [
        "timestamp",
        "input_length",
        "output_length",
        "hash_ids",
        "input",
        "output",
        "session_id",
        "t",
        "in",
        "out",
        "stop",
        "type",
        "requests",
        "block_size",
        "arrival_time_ns",
        "input_tok_ids",
        "output_toks",
    ]
)
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=8), max_size=4)


def read(trace_format: str, file: Path, on_error: str) -> None:
    """Read and check the trace, or meet the error that readers may raise."""
    try:
        trace = Trace.open(f"{trace_format}:{file}", on_error=on_error)
    except TraceError:
        return
    assert np.all(np.diff(trace.arrival_s) >= 0)
    assert np.all(np.isfinite(trace.arrival_s))
    assert np.all((trace.block_ids >= 0) & (trace.block_ids < trace.n_blocks))
    assert np.all(trace.input_tokens >= 0)


@pytest.mark.parametrize("trace_format", FORMATS)
@given(
    content=st.binary(max_size=300),
    suffix=st.sampled_from(["", ".gz", ".zst"]),
    on_error=st.sampled_from(["fail", "skip"]),
)
@FUZZ
def test_arbitrary_bytes(tmp_path: Path, trace_format: str, content: bytes, suffix: str, on_error: str) -> None:
    """Bytes of any kind, also where a compressed file is expected."""
    file = tmp_path / f"t{suffix}"
    file.write_bytes(HEADERS.get(trace_format, b"") + content)
    read(trace_format, file, on_error)


@pytest.mark.parametrize("trace_format", ["lmcache-agent", "mooncake", "token-ids"])
@given(rows=ROWS, on_error=st.sampled_from(["fail", "skip"]))
@FUZZ
def test_arbitrary_rows(tmp_path: Path, trace_format: str, rows: list[Any], on_error: str) -> None:
    """JSON lines with the formats' fields and values of any kind."""
    file = tmp_path / "t"
    file.write_text("\n".join(map(json.dumps, rows)))
    read(trace_format, file, on_error)


@given(rows=ROWS, frame=st.dictionaries(NAMES, VALUES, max_size=4), on_error=st.sampled_from(["fail", "skip"]))
@FUZZ
def test_arbitrary_sessions(tmp_path: Path, rows: list[Any], frame: dict[str, Any], on_error: str) -> None:
    """Session documents with entries and nested entries of any kind."""
    nested = {"t": 1.0, "type": "subagent", "requests": rows}
    file = tmp_path / "t"
    file.write_text(json.dumps({"block_size": 64, "requests": [*rows, nested]} | frame))
    read("kv-cache-tester", file, on_error)


@given(text=st.text('0123456789.,-:+ TZenai"\n', max_size=200), on_error=st.sampled_from(["fail", "skip"]))
@pytest.mark.parametrize("trace_format", ["azure", "libcachesim-csv"])
@FUZZ
def test_arbitrary_csv(tmp_path: Path, trace_format: str, text: str, on_error: str) -> None:
    """CSV rows made of the characters of numbers and times."""
    file = tmp_path / "t"
    file.write_bytes(HEADERS[trace_format] + text.encode())
    read(trace_format, file, on_error)


@given(
    window=st.lists(st.sampled_from(["0", "1", "-1", "nan", "600", "1e5", "Gamma", "Weibull", "", "x"]), max_size=8),
    lengths=st.dictionaries(st.sampled_from(["input_tokens", "text_tokens", "output_tokens", "image_count"]), VALUES),
    on_error=st.sampled_from(["fail", "skip"]),
)
@FUZZ
def test_arbitrary_clients(tmp_path: Path, window: list[str], lengths: dict[str, Any], on_error: str) -> None:
    """ServeGen windows and distributions of any kind."""
    (tmp_path / "c-trace.csv").write_text("0,1,1,Gamma,1,1\n" + ",".join(window))
    (tmp_path / "c-dataset.json").write_text(json.dumps({"0": lengths}))
    read("servegen", tmp_path / "c-trace.csv", on_error)


@given(place=st.integers(0, 10**6), value=st.integers(0, 255))
@FUZZ
def test_damaged_recording(tmp_path: Path, data: Path, place: int, value: int) -> None:
    """A recording with one byte changed, anywhere."""
    file = tmp_path / "t.parquet"
    if not file.exists():
        write_recording(Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/trace_0504.json.gz"), file)
        assert pq.read_metadata(file).num_rows == 3
    content = bytearray(file.read_bytes())
    content[place % len(content)] = value
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(content)
    read("recording", damaged, "fail")


@given(place=st.integers(0, 10**6), value=st.integers(0, 255), on_error=st.sampled_from(["fail", "skip"]))
@FUZZ
def test_damaged_gzip(tmp_path: Path, place: int, value: int, on_error: str) -> None:
    """A compressed trace with one byte changed, anywhere."""
    row = {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [4, 7]}
    content = bytearray(gzip.compress("\n".join([json.dumps(row)] * 50).encode(), mtime=0))
    content[place % len(content)] = value
    (tmp_path / "t.gz").write_bytes(content)
    read("mooncake", tmp_path / "t.gz", on_error)
