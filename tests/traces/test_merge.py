"""Merging sessions into one stream, and coarsening blocks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import TraceError
from autotune.core.trace import Trace, TraceProvenance
from autotune.traces.coarsen import coarsen
from autotune.traces.columns import Columns
from autotune.traces.hashing import BlockNumbers
from autotune.traces.merge import merge_sessions
from autotune.traces.stats import describe

PROVENANCE = TraceProvenance("test", ("t",), "0" * 64)
# Prompts as digits: a block is two digits, so that random prompts share prefixes.
PROMPTS = st.lists(st.tuples(st.integers(0, 9), st.text("01", max_size=24)), min_size=1, max_size=12)


def make_trace(prompts: list[tuple[int, str]], *, block_tokens: int = 2) -> Trace:
    """A trace of full blocks of the prompts' characters; a character is a token."""
    columns, numbers = Columns(units_per_s=1, must_be_sorted=False), BlockNumbers()
    for time_s, prompt in sorted(prompts):
        starts = range(0, len(prompt) - block_tokens + 1, block_tokens)
        blocks = (prompt[start : start + block_tokens].encode() for start in starts)
        columns.add(time_s, len(prompt), 1, numbers.of(blocks), session=0, stop_reason="end" if prompt else "")
    return columns.trace(PROVENANCE, block_tokens=block_tokens)


@pytest.fixture
def sessions(data: Path) -> list[Trace]:
    """Three published sessions."""
    names = ("trace_0291", "trace_0504", "trace_0546")
    return [Trace.open(f"kv-cache-tester:{data}/kv-cache-tester/{name}.json.gz") for name in names]


@given(PROMPTS, st.integers(1, 5))
def test_coarse_blocks_are_those_of_hashing_anew(prompts: list[tuple[int, str]], factor: int) -> None:
    """Coarsening ids gives the same trace as cutting the prompts into larger blocks in the first place."""
    coarse = coarsen(make_trace(prompts), 2 * factor)
    anew = make_trace(prompts, block_tokens=2 * factor)
    assert coarse.block_ids.tolist() == anew.block_ids.tolist()
    assert coarse.block_offsets.tolist() == anew.block_offsets.tolist()
    assert (coarse.n_blocks, coarse.block_tokens) == (anew.n_blocks, anew.block_tokens)


def test_partial_block_does_not_complete_a_coarse_one(tmp_path: Path) -> None:
    """Where a partial tail has an id of its own, it fills no coarse block."""
    rows = [
        {"timestamp": 0, "input_length": 2 * 512 - 1, "output_length": 1, "hash_ids": [1, 2]},
        {"timestamp": 0, "input_length": 2 * 512, "output_length": 1, "hash_ids": [1, 3]},
    ]
    (tmp_path / "t").write_text("\n".join(map(json.dumps, rows)))
    coarse = coarsen(Trace.open(f"mooncake:{tmp_path}/t"), 1024)
    assert np.diff(coarse.block_offsets).tolist() == [0, 1]
    assert coarse.provenance.options == (("coarsened_to_tokens", "1024"),)


def test_coarsening_to_the_same_size_changes_nothing() -> None:
    """The trace's own block size leaves it as it is."""
    trace = make_trace([(0, "0101")])
    assert coarsen(trace, 2) is trace


@pytest.mark.parametrize("block_tokens", [1, 3, 0, -2])
def test_coarsening_to_no_multiple_is_refused(block_tokens: int) -> None:
    """Only multiples can be had from prefix-chained ids."""
    with pytest.raises(TraceError, match=r"multiple|from 1"):
        coarsen(make_trace([(0, "0101")]), block_tokens)


def test_coarsening_without_chains_is_refused() -> None:
    """Ids that do not stand for whole prefixes, or no ids at all, cannot be coarsened."""
    columns = Columns(units_per_s=1, must_be_sorted=False)
    columns.add(0, 4, 1, [1, 2])
    columns.add(0, 4, 1, [3, 2])
    with pytest.raises(TraceError, match="1 of 4 accesses"):
        coarsen(columns.trace(PROVENANCE, block_tokens=2), 4)
    with pytest.raises(TraceError, match="arrivals and lengths only"):
        coarsen(columns.trace(PROVENANCE, block_tokens=0), 4)


@given(st.lists(PROMPTS, min_size=1, max_size=4), st.integers(1, 12), st.integers(0, 5))
def test_merged_stream_is_its_sessions(groups: list[list[tuple[int, str]]], span_s: int, seed: int) -> None:
    """Every session appears with its own requests, shifted by its start and cut at the span, sharing no block."""
    parts = [make_trace(group) for group in groups]
    merged = merge_sessions(parts, span_s=span_s, seed=seed)
    starts_s = np.random.default_rng(seed).uniform(0, span_s, len(parts))
    zero_s = starts_s.min()
    owners: dict[int, int] = {}
    n_kept = 0
    for number, (part, start_s) in enumerate(zip(parts, starts_s, strict=True)):
        mine = np.flatnonzero(merged.session == number)
        kept = part.arrival_s + start_s <= span_s
        assert np.allclose(merged.arrival_s[mine], (part.arrival_s + start_s)[kept] - zero_s)
        names: dict[int, int] = {}
        for request, place in enumerate(mine.tolist()):
            pairs = list(zip(part.blocks_of(request).tolist(), merged.blocks_of(place).tolist(), strict=True))
            assert all(names.setdefault(before, after) == after for before, after in pairs)
            assert all(owners.setdefault(after, number) == number for _, after in pairs)
            reasons = [t.stop_reasons[i] if i >= 0 else "" for t, i in _reasons(part, request, merged, place)]
            assert reasons[0] == reasons[1]
        n_kept += len(mine)
    assert n_kept == merged.n_requests
    cut = dict(merged.provenance.options)["merge_cut_requests"]
    assert int(cut) == sum(part.n_requests for part in parts) - n_kept
    assert np.all(np.diff(merged.arrival_s) >= 0)


def _reasons(part: Trace, request: int, merged: Trace, place: int) -> list[tuple[Trace, int]]:
    return [(part, int(part.stop_reason[request])), (merged, int(merged.stop_reason[place]))]


def test_merge_is_recorded(sessions: list[Trace]) -> None:
    """Provenance lists all files and says that, how and with which seed the stream was merged."""
    merged = merge_sessions(sessions, span_s=600, seed=7, block_tokens=512)
    assert merged.provenance.paths == ("trace_0291.json.gz", "trace_0504.json.gz", "trace_0546.json.gz")
    options = dict(merged.provenance.options)
    assert options.pop("merge_cut_requests").isdigit()
    assert options == {
        "coarsened_to_tokens": "512",
        "merge_seed": "7",
        "merge_span_s": "600",
        "merged_sessions": "3",
    }


def test_merge_depends_on_seed_only(sessions: list[Trace]) -> None:
    """The same seed gives the same stream, another one another."""
    one, same, other = (merge_sessions(iter(sessions), span_s=600, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.arrival_s, same.arrival_s)
    assert np.array_equal(one.block_ids, same.block_ids)
    assert not np.array_equal(one.arrival_s[:5], other.arrival_s[:5])


def test_long_span_keeps_everything(sessions: list[Trace]) -> None:
    """Sessions that fit the span lose no request and no access."""
    longest_s = max(trace.span_s for trace in sessions)
    merged = merge_sessions(sessions, span_s=1000 * longest_s, seed=0)
    assert merged.n_requests == sum(trace.n_requests for trace in sessions)
    assert merged.n_accesses == sum(trace.n_accesses for trace in sessions)
    assert merged.n_blocks == sum(trace.n_blocks for trace in sessions)
    assert describe(merged).infinite_hits == sum(describe(trace).infinite_hits for trace in sessions)


def test_unlike_sessions_are_refused(sessions: list[Trace]) -> None:
    """Nothing, other blocks or another format cannot be merged into one stream."""
    with pytest.raises(TraceError, match="at least one session"):
        merge_sessions([], span_s=1, seed=0)
    with pytest.raises(TraceError, match="one block size"):
        merge_sessions([sessions[0], coarsen(sessions[1], 512)], span_s=1, seed=0)
    other = replace(sessions[1], provenance=replace(sessions[1].provenance, trace_format="mooncake"))
    with pytest.raises(TraceError, match="one format"):
        merge_sessions([sessions[0], other], span_s=1, seed=0)


@pytest.mark.parametrize(("span_s", "seed"), [(0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (10, -1)])
def test_unfit_arguments_are_refused(sessions: list[Trace], span_s: float, seed: int) -> None:
    """A span is a positive number of seconds and a seed is not negative."""
    with pytest.raises(TraceError):
        merge_sessions(sessions, span_s=span_s, seed=seed)


def test_skipped_rows_add_up(sessions: list[Trace]) -> None:
    """What was left out of the sessions is left out of the stream."""
    marked = [
        replace(trace, provenance=replace(trace.provenance, skipped_rows=(("wrong type", 2),))) for trace in sessions
    ]
    assert merge_sessions(marked, span_s=600, seed=0).provenance.skipped_rows == (("wrong type", 6),)
