"""The chosen setting beside its rivals, over capacities, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Tier
from autotune.search.choice import Judged, Split, split_in_time
from autotune.search.comparison import CLAIRVOYANTS, capacity_curves, compare, decisions_over_time
from autotune.search.problem import Problem, with_policy
from autotune.search.result import Curve, PolicyRow
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.config import CacheConfig
from autotune.sim.queueing import QueueConfig

SUMS = ("accesses", "device_hit_blocks", "loaded_blocks", "computed_blocks", "stored_blocks", "evicted_host_blocks")


@pytest.fixture(scope="module")
def judged(split: Split, ranked: Setting) -> Judged:
    """The rank rule on the host as the future sees it."""
    return split.judge(ranked)


@pytest.fixture(scope="module")
def lru(split: Split) -> Judged:
    """LRU as the future sees it."""
    return split.judge(LRU_SETTING)


@pytest.fixture(scope="module")
def table(split: Split, judged: Judged, lru: Judged) -> tuple[PolicyRow, ...]:
    """The table with one contender."""
    return compare(split, lru.evaluation, {"tuned": judged.evaluation}, 1)


@pytest.fixture(scope="module")
def curves(split: Split, judged: Judged) -> tuple[Curve, ...]:
    """Curves of three policies on two tiers."""
    return capacity_curves(split, judged, 2)


def rising(values: Sequence[float]) -> bool:
    """Whether no value is below the one before it."""
    return all(low <= high for low, high in pairwise(values))


def test_rows_go_from_lru_to_the_bound(table: tuple[PolicyRow, ...]) -> None:
    """LRU closes nothing of its gap to the clairvoyant, the clairvoyant all of it."""
    assert [row.name for row in table] == ["lru", "arc", "s3fifo", "tuned", "clairvoyant"]
    assert table[0].gap_closed_frac == table[0].hit_gap_closed_frac == 0.0
    assert table[-1].gap_closed_frac == table[-1].hit_gap_closed_frac == 1.0
    assert all(row.cost_s > table[-1].cost_s for row in table[:-1])


def test_rivals_are_what_the_engine_has(split: Split, lru: Judged) -> None:
    """By the rules of vLLM the rival beside LRU is vLLM's own ARC."""
    whole = replace(split.whole, engine=replace(split.whole.engine, semantics=EngineSemantics.VLLM_0_32))
    rows = compare(replace(split, whole=whole), lru.evaluation, {}, 1)
    assert [row.name for row in rows] == ["lru", "vllm_arc", "clairvoyant"]


def test_the_bound_is_the_better_clairvoyant(split: Split, table: tuple[PolicyRow, ...]) -> None:
    """Of the clairvoyants that count blocks and seconds, the cheaper one bounds the others."""
    whole = split.whole
    engines = [with_policy(whole.engine, whole.ranked, PolicySpec(name)) for name in CLAIRVOYANTS]
    costs_s = [whole.evaluate_engine(engine, split.held_out).totals.cost_s for engine in engines]
    assert costs_s[0] != costs_s[1]
    assert table[-1].cost_s == min(costs_s)


def test_the_gap_is_one_of_costs(table: tuple[PolicyRow, ...]) -> None:
    """The share that a policy closes is what it saves of LRU's cost over what the clairvoyant saves."""
    for row in table:
        share = (table[0].cost_s - row.cost_s) / (table[0].cost_s - table[-1].cost_s)
        assert row.gap_closed_frac == pytest.approx(share)


def test_a_row_says_what_was_counted(table: tuple[PolicyRow, ...], judged: Judged) -> None:
    """Shares, seconds and bytes of a row are those of the held-out requests."""
    row, totals = table[3], judged.evaluation.totals
    assert row.device_hit_frac == totals.device_hit_blocks / totals.accesses
    assert row.host_hit_frac == totals.host_hit_blocks / totals.accesses
    assert row.disk_hit_frac == 0.0
    assert row.token_hit_frac == totals.hit_tokens / totals.prompt_tokens
    assert (row.cost_s, row.net_seconds_saved) == (totals.cost_s, totals.net_seconds_saved)
    assert (row.stored_bytes, row.loaded_bytes) == (totals.stored_bytes, totals.loaded_bytes)
    assert row.stored_per_loaded == totals.stored_bytes / totals.loaded_bytes
    assert row.ttft_p95_s is None


def test_rows_do_not_depend_on_threads(split: Split, lru: Judged, judged: Judged, table: tuple[PolicyRow, ...]) -> None:
    """Three threads find what one finds, in the same order."""
    assert compare(split, lru.evaluation, {"tuned": judged.evaluation}, 3) == table


def test_rows_have_latencies_where_there_is_a_queue(with_host: Problem) -> None:
    """With a queue every row has percentiles of the time to first token, and a share of good requests."""
    split = split_in_time(replace(with_host, queue=QueueConfig(servers=4)), 0.6)
    for row in compare(split, split.judge(LRU_SETTING).evaluation, {}, 1):
        quantiles = (row.ttft_p50_s, row.ttft_p95_s, row.ttft_p99_s)
        assert rising([value for value in quantiles if value is not None])
        assert None not in quantiles
        assert row.goodput_frac is not None
        assert 0.0 < row.goodput_frac <= 1.0


def test_without_a_gap_there_is_no_share(device_only: Problem) -> None:
    """Where all that comes back fits, nobody is better than LRU and no share is given."""
    split = split_in_time(replace(device_only, engine=CacheConfig(device_only.trace.n_blocks)), 0.6)
    rows = compare(split, split.judge(LRU_SETTING).evaluation, {}, 1)
    assert all(row.gap_closed_frac is None and row.hit_gap_closed_frac is None for row in rows)


def test_curves_span_both_tiers(split: Split, curves: tuple[Curve, ...]) -> None:
    """Each tier has three curves over the same ascending capacities, from an eighth of its budget to eight times it."""
    names = [(curve.tier, curve.policy) for curve in curves]
    assert names == [(tier, policy) for tier in ("device", "host") for policy in ("lru", "tuned", "clairvoyant")]
    size = split.whole.trace.block_tokens * split.whole.costs.kv_bytes_per_token
    for curve in curves:
        blocks = split.whole.engine.capacities[Tier[curve.tier.upper()]]
        assert [bytes_ / size / blocks for bytes_ in curve.capacity_bytes] == pytest.approx(
            [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], rel=0.02
        )
        assert len(curve.hit_frac) == len(curve.net_seconds_saved) == len(curve.capacity_bytes)


def test_more_room_never_costs_lru_hits(curves: tuple[Curve, ...]) -> None:
    """LRU and the clairvoyant hit more, or as much, with every step of capacity."""
    for curve in curves:
        if curve.policy != "tuned":
            assert rising(curve.hit_frac)


def test_curves_meet_the_table_at_the_budget(
    split: Split, curves: tuple[Curve, ...], table: tuple[PolicyRow, ...]
) -> None:
    """At the budgeted capacity a curve shows what the table says of its policy."""
    rows = {row.name: row for row in table}
    for curve in curves:
        row, here = rows[curve.policy], len(curve.capacity_bytes) // 2
        hits = row.device_hit_frac + row.host_hit_frac
        if curve.policy == "clairvoyant":  # the table has the better of two clairvoyants
            assert curve.net_seconds_saved[here] <= row.net_seconds_saved
        else:
            assert curve.hit_frac[here] == pytest.approx(hits)
            assert curve.net_seconds_saved[here] == pytest.approx(row.net_seconds_saved)


def test_curves_freeze_their_scales_on_the_past(chat: Trace, with_host: Problem, ranked: Setting) -> None:
    """Where the future is eight times as slow, the tuned policy still ranks with the turnover that the past had."""
    arrival_s = chat.arrival_s + 7.0 * np.maximum(chat.arrival_s - chat.arrival_s[900], 0.0)
    split = split_in_time(replace(with_host, trace=replace(chat, arrival_s=arrival_s)), 0.15)
    setting = replace(ranked, half_life_turnovers=2.0)
    judged = split.judge(setting)
    for curve in capacity_curves(split, judged, 2):
        if curve.policy == "tuned":
            here = len(curve.capacity_bytes) // 2
            assert curve.net_seconds_saved[here] == pytest.approx(judged.evaluation.totals.net_seconds_saved)


@pytest.mark.parametrize("host_blocks", [10, 1500])
def test_curves_of_a_host_that_stores_chunks(host_blocks: int, with_host: Problem, ranked: Setting) -> None:
    """Chunks are as chosen at the budget, and shrink to what an eighth of a small host still holds."""
    split = split_in_time(replace(with_host, engine=CacheConfig(300, host_blocks)), 0.6)
    chunked = split.judge(replace(ranked, chunk_blocks=4))
    assert chunked.engine.chunk_blocks == 4
    curves = {(curve.tier, curve.policy): curve for curve in capacity_curves(split, chunked, 1)}
    host = curves["host", "tuned"]
    assert len(host.hit_frac) == len(host.capacity_bytes) == 7
    assert host.net_seconds_saved[3] == pytest.approx(chunked.evaluation.totals.net_seconds_saved)


def test_windows_sum_up_to_totals(split: Split, judged: Judged, lru: Judged) -> None:
    """Windows of equal time leave out no request of the whole trace, and count none twice."""
    rows = decisions_over_time(split, judged, lru.evaluation)
    totals, base = judged.evaluation.cache.totals(), lru.evaluation.cache.totals()
    sums = {name: sum(getattr(row, name) for row in rows) for name in SUMS}
    assert sums == {
        "accesses": totals.accesses,
        "device_hit_blocks": totals.device_hit_blocks,
        "loaded_blocks": totals.host_hit_blocks + totals.disk_hit_blocks,
        "computed_blocks": totals.computed_blocks,
        "stored_blocks": totals.stored_bytes // judged.evaluation.cache.block_bytes,
        "evicted_host_blocks": totals.evicted_host_blocks,
    }
    assert sum(row.cost_s for row in rows) == pytest.approx(totals.cost_s)
    assert sum(row.baseline_cost_s for row in rows) == pytest.approx(base.cost_s)


def test_windows_are_of_equal_time(split: Split, judged: Judged, lru: Judged) -> None:
    """Forty windows begin at even steps from the start of the trace."""
    starts = [row.start_s for row in decisions_over_time(split, judged, lru.evaluation)]
    assert starts == pytest.approx([split.whole.trace.span_s * i / 40 for i in range(40)])
