"""A trace as columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import TraceError
from autotune.core.trace import Trace, TraceProvenance, chain_parents, dense_ids


def make(requests: list[list[int]], block_tokens: int = 16) -> Trace:
    """A trace of requests one second apart, given by the blocks that they touch."""
    ids, n_blocks = dense_ids(np.array([b for blocks in requests for b in blocks], np.int64))
    n = len(requests)
    return Trace(
        arrival_s=np.arange(n, dtype=np.float64),
        input_tokens=np.array([len(b) * block_tokens for b in requests], np.int32),
        output_tokens=np.ones(n, np.int32),
        session=np.full(n, -1, np.int32),
        stop_reason=np.full(n, -1, np.int32),
        block_offsets=np.concatenate(([0], np.cumsum([len(b) for b in requests]))).astype(np.int64),
        block_ids=ids,
        n_blocks=n_blocks,
        block_tokens=block_tokens,
        provenance=TraceProvenance("test", ("hand.jsonl",), "0" * 64),
    )


@given(st.lists(st.integers(-(2**62), 2**62), max_size=60))
def test_dense_ids_number_by_first_appearance(raw: list[int]) -> None:
    """Ids count up from 0 as new values appear, and equal values get equal ids."""
    ids, n = dense_ids(np.array(raw, np.int64))
    seen: dict[int, int] = {}
    assert ids.tolist() == [seen.setdefault(value, len(seen)) for value in raw]
    assert n == len(seen)


def test_parents_are_the_block_before_and_none_at_the_start() -> None:
    """0 → 1 → 2 and 0 → 1 → 3 share their prefix."""
    assert chain_parents(make([[7, 8, 9], [7, 8, 5], [4]])).tolist() == [-1, 0, 1, 1, -1]


def test_a_slice_keeps_ids_times_and_footprint() -> None:
    """The second half of a trace is still about the same blocks, at the same times."""
    trace = make([[1, 2], [3], [1, 2, 4]])
    part = trace.slice(1, 3)
    assert part.arrival_s.tolist() == [1.0, 2.0]
    assert [part.blocks_of(i).tolist() for i in range(2)] == [[2], [0, 1, 3]]
    assert (part.n_blocks, part.n_accesses, part.n_requests) == (4, 4, 2)
    assert chain_parents(part).tolist() == [-1, 0, -1, 1]


def test_a_slice_beyond_the_end_is_what_there_is() -> None:
    """Asking for too much gives the rest, possibly nothing."""
    trace = make([[1], [2]])
    assert trace.slice(1, 99).n_requests == 1
    assert trace.slice(5, 9).n_requests == 0


def test_time_is_found_by_bisection() -> None:
    """The first request at or after a moment."""
    trace = make([[1], [2], [3]])
    assert [trace.first_request_at(t) for t in (-1.0, 0.0, 0.5, 2.0, 9.0)] == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("source", ["", "mooncake", "mooncake:", ":path"])
def test_a_source_needs_format_and_path(source: str) -> None:
    """The error says how a trace is given and which formats there are."""
    with pytest.raises(TraceError, match=r"FORMAT:PATH.*mooncake"):
        Trace.open(source)


def test_two_formats_are_not_one_stream() -> None:
    """Different formats have different ids, so they are refused."""
    with pytest.raises(TraceError, match="one format"):
        Trace.open(["mooncake:a", "azure:b"])


def test_questions_about_caches_need_blocks() -> None:
    """A trace of arrivals only says so."""
    with pytest.raises(TraceError, match="which blocks"):
        make([[1]], block_tokens=0).require_blocks()
