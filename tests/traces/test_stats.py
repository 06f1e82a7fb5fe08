"""Facts about traces against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trace import Trace, TraceProvenance, dense_ids
from autotune.traces.stats import describe, reuse_gaps_s

Requests = list[tuple[int, list[int]]]
REQUESTS = st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 6), max_size=5)), min_size=1, max_size=12)


def make_trace(requests: Requests) -> Trace:
    """A trace of ``(gap since the request before in s, block ids)``."""
    n = len(requests)
    ids = [block for _, blocks in requests for block in blocks]
    block_ids, n_blocks = dense_ids(np.array(ids, np.int64))
    return Trace(
        arrival_s=np.cumsum([float(gap) for gap, _ in requests]) - requests[0][0],
        input_tokens=np.array([16 * len(blocks) for _, blocks in requests], np.int32),
        output_tokens=np.full(n, 7, np.int32),
        session=np.full(n, -1, np.int32),
        stop_reason=np.full(n, -1, np.int32),
        block_offsets=np.cumsum([0, *(len(blocks) for _, blocks in requests)]).astype(np.int64),
        block_ids=block_ids,
        n_blocks=n_blocks,
        block_tokens=16,
        provenance=TraceProvenance("test", ("t",), "0" * 64),
    )


@given(REQUESTS)
def test_counts_equal_counting_by_hand(requests: Requests) -> None:
    """Hits of an unbounded cache, chain violations and the hottest share agree with loops over the requests."""
    stats = describe(make_trace(requests))
    seen: set[int] = set()
    parents: dict[int, int] = {}
    hits = violations = 0
    for _, blocks in requests:
        run = 0
        while run < len(blocks) and blocks[run] in seen:
            run += 1
        hits += run
        for before, block in zip([-1, *blocks], blocks, strict=False):
            violations += parents.setdefault(block, before) != before
        seen.update(blocks)
    reuse = sorted((count - 1 for count in Counter(b for _, blocks in requests for b in blocks).values()), reverse=True)
    assert stats.infinite_hits == hits
    assert stats.chain_violations == violations
    assert stats.unique_blocks == len(seen)
    assert stats.hottest_reuse_frac == (reuse[0] / sum(reuse) if sum(reuse) else None)
    assert stats.requests_without_blocks == sum(not blocks for _, blocks in requests)


@given(REQUESTS)
def test_reuse_gaps_equal_counting_by_hand(requests: Requests) -> None:
    """Each access to a block seen before has one gap: the seconds since its last access."""
    trace = make_trace(requests)
    last: dict[int, float] = {}
    gaps = []
    for arrival_s, (_, blocks) in zip(trace.arrival_s.tolist(), requests, strict=True):
        for block in blocks:
            if block in last:
                gaps.append(arrival_s - last[block])
            last[block] = arrival_s
    assert sorted(reuse_gaps_s(trace).tolist()) == sorted(gaps)


def test_quantiles_and_totals() -> None:
    """Quantiles, rate and token totals of a trace small enough to know."""
    stats = describe(make_trace([(0, [1, 2]), (10, [1, 2]), (20, [1])]))
    assert stats.reuse_gap is not None
    assert stats.reuse_gap.p50_s == 10
    assert stats.reuse_gap.p99_s == pytest.approx(19.8)
    assert stats.rate_per_s == pytest.approx(0.1)
    assert (stats.input_tokens, stats.output_tokens, stats.span_s) == (80, 21, 30)


def test_trace_of_arrivals_only_has_no_block_facts(data: object) -> None:
    """What needs blocks is absent, not zero hits of a cache that was never asked."""
    stats = describe(Trace.open(f"azure:{data}/azure/*.csv.gz"))
    assert stats.requests == 300
    assert (stats.infinite_hit_frac, stats.reuse_gap, stats.hottest_reuse_frac) == (None, None, None)
    assert stats.requests_without_blocks == 0


def test_single_request_has_no_rate() -> None:
    """One request spans no time."""
    assert describe(make_trace([(0, [])])).rate_per_s is None
