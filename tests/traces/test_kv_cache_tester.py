"""Format ``kv-cache-tester``: sessions with nested subagents and ids of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.stats import describe

WriteSession = Callable[..., Path]


def request(time_s: float, *ids: int, **changes: Any) -> dict[str, Any]:
    """A request of full blocks and a bit more."""
    plain = {"t": time_s, "type": "n", "in": 64 * len(ids) + 63, "out": 5, "hash_ids": list(ids), "stop": "tool_use"}
    return plain | changes


@pytest.fixture
def write_session(tmp_path: Path) -> WriteSession:
    """Function that writes a session of these entries and returns the file."""

    def write(entries: list[Any], name: str = "s.json", **changes: Any) -> Path:
        session = {"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": entries} | changes
        file = tmp_path / name
        file.write_text(json.dumps(session))
        return file

    return write


def read(file: Path, **options: Any) -> Trace:
    """The session in a file."""
    return Trace.open(f"kv-cache-tester:{file}", **options)


def test_subagent_times_count_from_its_start(write_session: WriteSession) -> None:
    """Nested requests are placed in time by adding all starts above them, and the stream is sorted."""
    inner = {"t": 5.0, "type": "subagent", "requests": [request(0.0, 21), request(50.0, 22)]}
    outer = {"t": 10.0, "type": "subagent", "requests": [request(1.0, 11), inner]}
    trace = read(write_session([request(2.0, 1), outer, request(12.0, 1, 2)]))
    assert (trace.arrival_s + 2).tolist() == [2, 11, 12, 15, 65]
    assert trace.block_ids.tolist() == [0, 1, 0, 2, 3, 4]
    assert trace.session.tolist() == [0] * 5
    assert trace.provenance.options == (("sorted_by", "time"),)


def test_session_in_order_is_not_reported_as_sorted(write_session: WriteSession) -> None:
    """The provenance mentions sorting only where it changed something."""
    assert read(write_session([request(0.0, 1), request(0.0, 1)])).provenance.options == ()


def test_stop_reasons_are_named(write_session: WriteSession) -> None:
    """Stop reasons become numbers with names; empty or absent ones are unknown."""
    entries = [request(n, n, stop=stop) for n, stop in enumerate(["end_turn", "", "tool_use", "end_turn"])]
    del entries[1]["stop"]
    trace = read(write_session(entries))
    assert trace.stop_reasons == ("end_turn", "tool_use")
    assert trace.stop_reason.tolist() == [0, -1, 1, 0]


def test_short_prompt_has_no_block(write_session: WriteSession) -> None:
    """Only full blocks have ids, so a prompt of 63 tokens has none."""
    assert describe(read(write_session([request(0.0), request(1.0, 1)]))).requests_without_blocks == 1


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (request(0.0, 1, 2) | {"in": 200}, "wrong number of block ids"),
        (request(0.0, 1) | {"in": 63}, "wrong number of block ids"),
        (request(-1.0, 1), "out of range"),
        (request(1e11, 1), "out of range"),
        (request(0.0, 1) | {"t": True}, "wrong type"),
        (request(0.0, 1) | {"out": -1}, "out of range"),
        (request(0.0, 1) | {"hash_ids": [2**64]}, "out of range"),
        (request(0.0, 1) | {"stop": 3}, "wrong type"),
        ({"t": 0.0, "type": "subagent"}, "missing field"),
        ({"t": 0.0, "type": "subagent", "requests": {}}, "wrong type"),
        ({"t": 0.0, "type": "subagent", "requests": [7]}, "wrong type"),
        ("request", "wrong type"),
        ({}, "missing field"),
    ],
)
def test_malformed_request_fails_or_is_counted(entry: Any, kind: str, write_session: WriteSession) -> None:
    """The error says which request of the session is malformed; skipping leaves just that one out."""
    file = write_session([request(0.0, 1), entry, request(1.0, 1)])
    with pytest.raises(TraceError, match=r"s\.json:requests\[1\]"):
        read(file)
    trace = read(file, on_error="skip")
    assert trace.n_requests == 2
    assert trace.provenance.skipped_rows == ((kind, 1),)


@pytest.mark.parametrize(
    "changes",
    [{"block_size": 0}, {"block_size": None}, {"hash_id_scope": "galaxy"}, {"requests": 3}, {"requests": []}],
)
def test_malformed_session_is_refused(changes: dict[str, Any], write_session: WriteSession) -> None:
    """A session without a usable frame holds no requests, whatever is done about malformed rows."""
    for on_error in ("fail", "skip"):
        with pytest.raises(TraceError):
            read(write_session([request(0.0, 1)], **changes), on_error=on_error)


def test_endless_nesting_is_refused(write_session: WriteSession) -> None:
    """Subagents within subagents end at a bound."""
    entry: dict[str, Any] = request(0.0, 1)
    for _ in range(20):
        entry = {"t": 0.0, "type": "subagent", "requests": [entry]}
    with pytest.raises(TraceError, match="nested at most 16 deep"):
        read(write_session([entry]))


def test_session_files_do_not_form_a_stream(data: Path) -> None:
    """Several sessions are refused, and the error says how to merge them."""
    with pytest.raises(TraceError, match="--merge-span-s"):
        Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/*.json.gz")


def test_sessions_that_share_ids_are_not_merged(write_session: WriteSession) -> None:
    """Merging would tear apart ids of global scope, so it is refused; alone such a session is fine."""
    first = write_session([request(0.0, 1)], "a.json", hash_id_scope="global")
    second = write_session([request(0.0, 1)], "b.json")
    assert read(first).provenance.options == (("hash_id_scope", "global"),)
    with pytest.raises(TraceError, match="hash_id_scope global"):
        Trace.open([f"kv-cache-tester:{first}", f"kv-cache-tester:{second}"], merge_span_s=10)


def test_published_session_with_subagents(data: Path) -> None:
    """A published session with 20 requests and 12 more of two subagents has them all, with whole prefix chains."""
    stats = describe(read(data / "kv-cache-tester" / "trace_0291.json.gz"))
    assert (stats.requests, stats.accesses, stats.block_tokens, stats.chain_violations) == (32, 35_209, 64, 0)
