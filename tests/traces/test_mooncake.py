"""Format ``mooncake`` and the samples made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.stats import describe


@pytest.mark.parametrize(
    ("name", "requests", "accesses", "hits", "tick_s"),
    [("conversation", 7_218, 180_012, 62_738, 3.0), ("synthetic", 2_395, 60_671, 23_152, 0.001)],
)
def test_sample_has_its_known_counts(name: str, requests: int, accesses: int, hits: int, tick_s: float) -> None:
    """Requests, accesses, hits of an unbounded cache and the clock's tick of the bundled traces are as measured."""
    stats = describe(Trace.open(f"sample:{name}"))
    assert (stats.requests, stats.accesses, stats.infinite_hits) == (requests, accesses, hits)
    assert stats.unique_blocks == accesses - hits
    assert stats.chain_violations == 0
    assert stats.tick_s == tick_s


def test_times_are_seconds_from_the_first_request(write_rows: Callable[..., Path]) -> None:
    """Milliseconds become exact seconds since the first row."""
    rows: list[dict[str, object]] = [
        {"timestamp": t, "input_length": 0, "output_length": 0, "hash_ids": []} for t in (5_999, 6_000, 9_001.5)
    ]
    assert Trace.open(f"mooncake:{write_rows(rows)}").arrival_s.tolist() == [0.0, 0.001, 3.0025]


def test_ids_are_one_namespace_across_files(tmp_path: Path) -> None:
    """The same id in another file is the same block."""
    row = {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [40, 41]}
    (tmp_path / "a").write_text(json.dumps(row))
    (tmp_path / "b").write_text(json.dumps(row | {"hash_ids": [40, 50]}))
    assert Trace.open(f"mooncake:{tmp_path}/*").block_ids.tolist() == [0, 1, 0, 2]


def test_files_out_of_order_are_refused(write_rows: Callable[..., Path]) -> None:
    """A file that begins before the one before it ends is refused: it would be another trace or a wrong order."""
    row = {"timestamp": 5, "input_length": 0, "output_length": 0, "hash_ids": []}
    later, earlier = write_rows([row], "a"), write_rows([row | {"timestamp": 4}], "b")
    with pytest.raises(TraceError, match=r"b:1: arrival times must not go back"):
        Trace.open([f"mooncake:{later}", f"mooncake:{earlier}"])


def test_other_block_size_is_recorded(write_rows: Callable[..., Path]) -> None:
    """Traces of this form with other blocks are read on request, and the provenance says so."""
    row = {"timestamp": 5, "input_length": 33, "output_length": 0, "hash_ids": [1, 2, 3]}
    trace = Trace.open(f"mooncake:{write_rows([row])}", block_tokens=16)
    assert trace.block_tokens == 16
    assert trace.provenance.options == (("block_tokens", "16"),)


@pytest.mark.parametrize("block_tokens", [0, -1, 2.0, "512", True])
def test_unfit_block_size_is_refused(write_rows: Callable[..., Path], block_tokens: object) -> None:
    """A block size is a positive integer."""
    with pytest.raises(TraceError, match="block_tokens must be an integer"):
        Trace.open(f"mooncake:{write_rows([{}])}", block_tokens=block_tokens)


def test_sample_provenance_reopens_the_sample() -> None:
    """The provenance of a sample names the sample."""
    origin = Trace.open("sample:synthetic").provenance
    assert (origin.trace_format, origin.paths) == ("sample", ("synthetic",))


def test_samples_do_not_mix() -> None:
    """Two samples are two namespaces, and an unknown one is refused by name."""
    with pytest.raises(TraceError, match="one at a time"):
        Trace.open(["sample:synthetic", "sample:conversation"])
    with pytest.raises(TraceError, match="known: conversation, synthetic"):
        Trace.open("sample:toolagent")
