"""Malformed rows: each kind is refused with file and line, and counted when skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace

MOONCAKE = {"timestamp": 1000, "input_length": 600, "output_length": 1, "hash_ids": [4, 7]}
LMCACHE = {"timestamp": 1760997683007063, "input": "x" * 70, "output": "y", "session_id": "s"}
TOKENS = {"arrival_time_ns": 5, "input_tok_ids": [1, 2, 3], "output_toks": 1}
GOOD: dict[str, dict[str, Any]] = {
    "mooncake": MOONCAKE,
    "lmcache-agent": LMCACHE,
    "token-ids": TOKENS,
}
ANY_OBJECT = [
    ("{", "malformed JSON"),
    ("[1]", "wrong type"),
    ("7", "wrong type"),
    ("NaN", "NaN or infinity"),
    ('{"timestamp": -Infinity}', "NaN or infinity"),
    ("[" * 100_000, "malformed JSON"),
    ("9" * 5_000, "malformed JSON"),
    ("{}", "missing field"),
]
FIELD: list[tuple[str, dict[str, Any], str]] = [
    ("mooncake", {"timestamp": -1}, "out of range"),
    ("mooncake", {"timestamp": 999}, "time goes back"),
    ("mooncake", {"timestamp": 1e300}, "out of range"),
    ("mooncake", {"timestamp": True}, "wrong type"),
    ("mooncake", {"timestamp": "0"}, "wrong type"),
    ("mooncake", {"input_length": -5}, "out of range"),
    ("mooncake", {"input_length": True}, "wrong type"),
    ("mooncake", {"input_length": 600.0}, "wrong type"),
    ("mooncake", {"input_length": 2**31}, "out of range"),
    ("mooncake", {"input_length": None}, "wrong type"),
    ("mooncake", {"output_length": -1}, "out of range"),
    ("mooncake", {"output_length": "many"}, "wrong type"),
    ("mooncake", {"hash_ids": [4]}, "wrong number of block ids"),
    ("mooncake", {"hash_ids": [4, 7, 8]}, "wrong number of block ids"),
    ("mooncake", {"hash_ids": [4, True]}, "wrong type"),
    ("mooncake", {"hash_ids": [4, 7.0]}, "wrong type"),
    ("mooncake", {"hash_ids": [4, 2**63]}, "out of range"),
    ("mooncake", {"hash_ids": [4, -(2**63) - 1]}, "out of range"),
    ("mooncake", {"hash_ids": {"4": 7}}, "wrong type"),
    ("lmcache-agent", {"timestamp": 1.5}, "wrong type"),
    ("lmcache-agent", {"timestamp": -1}, "out of range"),
    ("lmcache-agent", {"timestamp": 10**30}, "out of range"),
    ("lmcache-agent", {"input": None}, "wrong type"),
    ("lmcache-agent", {"output": ["y"]}, "wrong type"),
    ("lmcache-agent", {"session_id": 3}, "wrong type"),
    ("token-ids", {"input_tok_ids": [1, "2"]}, "wrong type"),
    ("token-ids", {"arrival_time_ns": 2**80}, "out of range"),
    ("token-ids", {"output_toks": -1}, "out of range"),
]
CASES = [(name, row, kind) for name in GOOD for row, kind in ANY_OBJECT] + [
    (name, GOOD[name] | change, kind) for name, change, kind in FIELD
]
Write = Callable[..., Path]


@pytest.mark.parametrize(("trace_format", "row", "kind"), CASES)
def test_malformed_row_fails_with_file_and_line(trace_format: str, row: Any, kind: str, write_rows: Write) -> None:
    """The error names the file, the line, what came and what to do, on one line of bounded length."""
    file = write_rows([GOOD[trace_format], row, GOOD[trace_format]])
    with pytest.raises(TraceError) as caught:
        Trace.open(f"{trace_format}:{file}")
    message = str(caught.value)
    assert message.startswith(f"{file}:2: ")
    assert "; got " in message
    assert "--on-error skip" in message
    assert len(message) < 600
    assert "\n" not in message


@pytest.mark.parametrize(("trace_format", "row", "kind"), CASES)
def test_malformed_row_is_counted_when_skipped(trace_format: str, row: Any, kind: str, write_rows: Write) -> None:
    """Skipping keeps all other rows and says what was left out."""
    file = write_rows([GOOD[trace_format], row, row, GOOD[trace_format]])
    trace = Trace.open(f"{trace_format}:{file}", on_error="skip")
    assert trace.n_requests == 2
    assert trace.provenance.skipped_rows == ((kind, 2),)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """A line in another encoding is malformed, not repaired."""
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"timestamp": 0, "input_length": 0, "output_length": 0, "hash_ids": []}\n{"caf\xe9": 1}\n')
    with pytest.raises(TraceError, match=r":2: text must be UTF-8"):
        Trace.open(f"mooncake:{file}")
    assert Trace.open(f"mooncake:{file}", on_error="skip").provenance.skipped_rows == (("not UTF-8", 1),)


@pytest.mark.parametrize("trace_format", ["mooncake", "lmcache-agent", "azure", "libcachesim-csv", "kv-cache-tester"])
@pytest.mark.parametrize("content", ["", "\n \n"])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_empty_file_is_refused(trace_format: str, content: str, on_error: str, tmp_path: Path) -> None:
    """A trace without requests is an error, also when malformed rows are skipped."""
    (tmp_path / "t").write_text(content)
    with pytest.raises(TraceError, match=r"at least one (row|request)"):
        Trace.open(f"{trace_format}:{tmp_path}/t", on_error=on_error)


def test_empty_file_among_others_is_counted(write_rows: Write) -> None:
    """An empty file beside a good one is a fault of its own."""
    good, empty = write_rows([MOONCAKE], "a.jsonl"), write_rows([], "b.jsonl")
    sources = [f"mooncake:{good}", f"mooncake:{empty}"]
    with pytest.raises(TraceError, match="at least one row"):
        Trace.open(sources)
    assert Trace.open(sources, on_error="skip").provenance.skipped_rows == (("empty file", 1),)


def test_skipping_everything_is_refused_with_counts(write_rows: Write) -> None:
    """If nothing is left, the error says why."""
    with pytest.raises(TraceError, match="2 × missing field"):
        Trace.open(f"mooncake:{write_rows([{}, {}])}", on_error="skip")


def test_unknown_fields_are_ignored(write_rows: Write) -> None:
    """A row may carry more than the format asks for."""
    assert Trace.open(f"mooncake:{write_rows([MOONCAKE | {'priority': [1, {}]}])}").n_requests == 1


def test_equal_times_are_allowed(write_rows: Write) -> None:
    """Requests of one tick keep the order of their rows."""
    rows = [MOONCAKE | {"hash_ids": [n, n + 1]} for n in (10, 30, 20)]
    trace = Trace.open(f"mooncake:{write_rows(rows)}")
    assert trace.arrival_s.tolist() == [0, 0, 0]
    assert trace.block_ids.tolist() == [0, 1, 2, 3, 4, 5]


def test_largest_ids_are_allowed(write_rows: Write) -> None:
    """Ids may be any 64-bit integers."""
    rows = [MOONCAKE | {"hash_ids": [2**63 - 1, -(2**63)]}]
    assert Trace.open(f"mooncake:{write_rows(rows)}").n_blocks == 2
