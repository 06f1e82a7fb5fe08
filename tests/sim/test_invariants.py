"""What holds on every trace, whatever the policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.reference import ReferenceCache
from autotune.sim.stream import without_partial_blocks
from autotune.testing.streams import cost_profiles, make_costs, traces
from autotune.traces.stats import infinite_hits

POLICIES = registry.names(registry.POLICIES)
ADMITS_ALL = [name for name in POLICIES if name != "two_hit"]
BLOCKS = st.integers(1, 12)
STORES = st.sampled_from(StoreMode)
TIMINGS = st.sampled_from(Timing)
LRU_AS_RANK = PolicySpec.of("rank", lambda_recency=1.0, tau_s=50.0, half_life_s=7.0, cost_weight=0.5)
COLUMNS = ("device_hit", "host_hit", "disk_hit", "stored", "stored_disk", "evicted_device", "evicted_host", "wait_s")


def on_all_tiers(spec: PolicySpec, device: int, host: int = 0, disk: int = 0, **modes: Any) -> CacheConfig:
    """An engine with one policy on every tier."""
    return replace(CacheConfig(device, host, disk), device_policy=spec, host_policy=spec, disk_policy=spec, **modes)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25)
@given(trace=traces(), costs=cost_profiles(), sizes=st.tuples(BLOCKS, BLOCKS, BLOCKS), store=STORES, timing=TIMINGS)
def test_counts_add_up(
    name: str, trace: Trace, costs: CostProfile, sizes: tuple[int, int, int], store: StoreMode, timing: Timing
) -> None:
    """Hits and computed blocks are all accesses, nothing is negative, and loads never cost more than they save."""
    result = simulate_cache(trace, on_all_tiers(PolicySpec(name), *sizes, store_mode=store, timing=timing), costs)
    totals = result.totals()
    hits = totals.device_hit_blocks + totals.host_hit_blocks + totals.disk_hit_blocks
    assert hits + totals.computed_blocks == totals.accesses == trace.n_accesses
    assert all(np.all(getattr(result, column) >= 0) for column in COLUMNS)
    assert np.all(result.hit_blocks() <= np.diff(trace.block_offsets))
    loaded_s = result.recompute_saved_s() - costs.prefill_s(
        np.minimum(result.device_hit * trace.block_tokens, trace.input_tokens)
    )
    assert np.all(result.load_s() <= loaded_s + 1e-9)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15)
@given(trace=traces(), sizes=st.tuples(BLOCKS, BLOCKS, BLOCKS), store=STORES, timing=TIMINGS)
def test_no_tier_overflows(
    name: str, trace: Trace, sizes: tuple[int, int, int], store: StoreMode, timing: Timing
) -> None:
    """After every request no tier holds more than its capacity."""
    config = on_all_tiers(PolicySpec(name), *sizes, store_mode=store, timing=timing)
    cache = ReferenceCache(trace, config, make_costs())
    for _ in cache.steps():
        assert all(len(cache.residents(tier)) <= sizes[tier] for tier in Tier)


@pytest.mark.parametrize("name", ADMITS_ALL)
@settings(max_examples=15)
@given(trace=traces(), device=BLOCKS, host=BLOCKS, timing=TIMINGS)
def test_exclusive_stores_keep_one_copy(name: str, trace: Trace, device: int, host: int, timing: Timing) -> None:
    """Under exclusive stores no block lies on device and host at once."""
    config = on_all_tiers(PolicySpec(name), device, host, store_mode=StoreMode.EXCLUSIVE, timing=timing)
    cache = ReferenceCache(trace, config, make_costs())
    for _ in cache.steps():
        assert not cache.residents(Tier.DEVICE) & cache.residents(Tier.HOST)


@pytest.mark.parametrize("name", ADMITS_ALL)
@settings(max_examples=15)
@given(trace=traces(), full_blocks=st.booleans())
def test_room_for_all_finds_all(name: str, trace: Trace, full_blocks: bool) -> None:
    """A device that never has to evict finds what the trace itself says can be found."""
    config = on_all_tiers(PolicySpec(name), max(1, trace.n_blocks), full_blocks=full_blocks)
    result = simulate_cache(trace, config, make_costs())
    if not full_blocks:
        assert result.totals().device_hit_blocks == infinite_hits(trace)
        return
    assert result.totals().device_hit_blocks <= infinite_hits(without_partial_blocks(trace))
    assert np.all(result.hit_tokens()[trace.input_tokens > 0] < trace.input_tokens[trace.input_tokens > 0])


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=40)
@given(trace=traces(), blocks=BLOCKS)
def test_nobody_finds_more_than_the_clairvoyant(name: str, trace: Trace, blocks: int) -> None:
    """On one tier no policy hits more blocks than evicting the farthest next use."""
    found = [
        simulate_cache(trace, on_all_tiers(PolicySpec(policy), blocks), make_costs()).totals().device_hit_blocks
        for policy in (name, "clairvoyant")
    ]
    assert found[0] <= found[1]


@settings(max_examples=100)
@given(
    trace=traces(),
    costs=cost_profiles(),
    sizes=st.tuples(BLOCKS, BLOCKS | st.just(0), BLOCKS),
    store=STORES,
    timing=TIMINGS,
)
def test_rank_with_lambda_one_is_lru(
    trace: Trace, costs: CostProfile, sizes: tuple[int, int, int], store: StoreMode, timing: Timing
) -> None:
    """With λ = 1 the rank rule counts what LRU counts, column by column, on all tiers and in all modes."""
    device, host, disk = sizes
    lru, rank = (
        simulate_cache(
            trace, on_all_tiers(spec, device, host, disk if host else 0, store_mode=store, timing=timing), costs
        )
        for spec in (PolicySpec("lru"), LRU_AS_RANK)
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(rank, column), getattr(lru, column), err_msg=column)


@settings(max_examples=60)
@given(trace=traces(), device=BLOCKS, host=BLOCKS)
def test_two_exclusive_lru_tiers_are_one(trace: Trace, device: int, host: int) -> None:
    """LRU on the device with LRU below it, each block in one of them, finds what one LRU of both sizes finds."""
    config = CacheConfig(device, host, store_mode=StoreMode.EXCLUSIVE, check_break_even=False)
    two = simulate_cache(trace, config, make_costs())
    one = simulate_cache(trace, CacheConfig(device + host), make_costs())
    np.testing.assert_array_equal(two.hit_blocks(), one.device_hit)


@settings(max_examples=60)
@given(trace=traces(), device=BLOCKS, host=BLOCKS, store=STORES)
def test_a_host_leaves_the_device_alone(trace: Trace, device: int, host: int, store: StoreMode) -> None:
    """Under instant timing what the device finds does not depend on what lies below it."""
    alone = simulate_cache(trace, CacheConfig(device), make_costs())
    beside = simulate_cache(trace, CacheConfig(device, host, store_mode=store), make_costs())
    np.testing.assert_array_equal(beside.device_hit, alone.device_hit)


@pytest.mark.parametrize("name", ["lru", "clairvoyant"])
@settings(max_examples=60)
@given(trace=traces(), blocks=BLOCKS)
def test_more_room_never_finds_less(name: str, trace: Trace, blocks: int) -> None:
    """LRU and the clairvoyant never lose a hit through one more block."""
    small, large = (
        simulate_cache(trace, on_all_tiers(PolicySpec(name), n), make_costs()).totals().device_hit_blocks
        for n in (blocks, blocks + 1)
    )
    assert small <= large


@settings(max_examples=40)
@given(trace=traces(), sizes=st.tuples(BLOCKS, BLOCKS), store=STORES, timing=TIMINGS, stop=st.integers(0, 40))
def test_the_future_does_not_matter(
    trace: Trace, sizes: tuple[int, int], store: StoreMode, timing: Timing, stop: int
) -> None:
    """What a policy without foresight does to the first requests is the same without those that follow."""
    spec = PolicySpec.of("rank", lambda_recency=0.2, tau_s=5.0, cost_weight=0.4, half_life_s=9.0)
    config = on_all_tiers(spec, *sizes, store_mode=store, timing=timing)
    whole, part = (simulate_cache(t, config, make_costs()) for t in (trace, trace.slice(0, stop)))
    for column in ("device_hit", "host_hit", "wait_s"):
        np.testing.assert_array_equal(getattr(whole, column)[:stop], getattr(part, column), err_msg=column)
