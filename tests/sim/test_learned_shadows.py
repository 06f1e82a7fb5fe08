"""The shadows of the learned cache: twins of the live cache until they go their own way, and again when they can."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.core.costs import CostProfile
from autotune.core.reuse import gain_table, pack
from autotune.core.state import ABSENT, WHERE
from autotune.core.trace import Trace
from autotune.core.types import Arm, RankForm, StoreMode, Tier, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import HazardRules
from autotune.testing.reuse import example_reuse_model
from autotune.testing.streams import make_costs

CAPACITIES = {Timing.INSTANT: (300, 1_200), Timing.SERVICE: (4_000, 2_000)}


def rules(form: RankForm) -> HazardRules:
    """A rule in force, from a small model."""
    model = example_reuse_model()
    return HazardRules(pack(model, 20.0), gain_table(model, 0.0), tick_s=10.0, copy_factor=0.0, form=form)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The first requests of a production trace."""
    return Trace.open("sample:conversation").slice(0, 900)


@pytest.fixture(scope="module")
def costs() -> CostProfile:
    """Some costs."""
    return make_costs()


@pytest.fixture(params=list(Timing))
def engine(request: pytest.FixtureRequest) -> CacheConfig:
    """Device and host with lazy stores, both full early in the trace."""
    device, host = CAPACITIES[request.param]
    return CacheConfig(device, host, store_mode=StoreMode.LAZY, timing=request.param)


def with_rules_in_shadow(trace: Trace, engine: CacheConfig, costs: CostProfile, at: int) -> LearnedCache:
    """The cache after ``at`` requests, from which on both shadows of what was learned obey."""
    cache = LearnedCache(trace, engine, costs)
    cache.run(at)
    cache.know(rules(RankForm.HAZARD).packed)
    for form in RankForm:
        assert cache.learn(Arm.of(form), rules(form))
    return cache


def residents(cache: LearnedCache, arm: Arm) -> list[set[int]]:
    """Blocks on device and host of a shadow that goes its own way."""
    side = cache.shadow(arm)
    return [
        set(np.flatnonzero(tier.nodes[: cache.trace.n_blocks, WHERE] != ABSENT)) for tier in (side.device, side.host)
    ]


def test_all_shadows_are_the_live_cache_until_something_was_learned(
    trace: Trace, engine: CacheConfig, costs: CostProfile
) -> None:
    """Until then every way is one LRU over both tiers."""
    cache = LearnedCache(trace, engine, costs)
    cache.run(trace.n_requests)
    for arm in Arm:
        np.testing.assert_array_equal(cache.shadow(arm).out, cache.live.out)
    np.testing.assert_array_equal(cache.result().host_hit, simulate_joint_lru(trace, engine, costs).host_hit)


@pytest.mark.parametrize("form", RankForm)
def test_a_shadow_begins_with_what_the_live_cache_holds(trace: Trace, costs: CostProfile, form: RankForm) -> None:
    """It does what a cache does that obeyed from that request on, while the live one goes on as LRU."""
    engine = CacheConfig(*CAPACITIES[Timing.INSTANT], store_mode=StoreMode.LAZY)
    cache = with_rules_in_shadow(trace, engine, costs, 400)
    cache.run(trace.n_requests)
    alone = LearnedCache(trace, engine, costs, shadows=False)
    alone.run(400)
    alone.know(rules(form).packed)
    alone.obey(rules(form))
    alone.run(trace.n_requests)
    np.testing.assert_array_equal(cache.shadow(Arm.of(form)).out, alone.live.out)
    np.testing.assert_array_equal(cache.result().host_hit, simulate_joint_lru(trace, engine, costs).host_hit)
    assert (cache.shadow(Arm.of(form)).out != cache.live.out).any()


def test_the_shadow_of_what_is_obeyed_is_the_live_cache(trace: Trace, engine: CacheConfig, costs: CostProfile) -> None:
    """From the change on it counts what happens; when LRU is taken again it goes on with what the live cache holds."""
    cache = with_rules_in_shadow(trace, engine, costs, 300)
    cache.run(500)
    before = cache.shadow(Arm.HAZARD).out[:500].copy()
    cache.switch(Arm.HAZARD)
    cache.run(700)
    shadow = cache.shadow(Arm.HAZARD).out
    np.testing.assert_array_equal(shadow[:400], before[:400])  # what still ran at the change may finish on either
    np.testing.assert_array_equal(shadow[500:700], cache.live.out[500:700])
    held = [
        set(np.flatnonzero(t.nodes[: trace.n_blocks, WHERE] != ABSENT)) for t in (cache.live.device, cache.live.host)
    ]
    cache.switch(Arm.LRU)
    assert residents(cache, Arm.HAZARD) == held
    cache.run(trace.n_requests)
    assert (cache.shadow(Arm.HAZARD).out[700:] != cache.live.out[700:]).any()


def test_the_shadow_of_lru_is_lru_whatever_was_obeyed_in_between(trace: Trace, costs: CostProfile) -> None:
    """Two changes, and it still equals one LRU over both tiers from the first request on."""
    engine = CacheConfig(*CAPACITIES[Timing.INSTANT], store_mode=StoreMode.LAZY)
    cache = with_rules_in_shadow(trace, engine, costs, 300)
    for stop, arm in ((400, Arm.FIXED_KEY), (500, Arm.LRU), (600, Arm.HAZARD)):
        cache.run(stop)
        cache.switch(arm)
    cache.run(trace.n_requests)
    found, lru = cache.shadow_result(Arm.LRU), simulate_joint_lru(trace, engine, costs)
    for column in ("device_hit", "host_hit", "stored", "evicted_device", "evicted_host"):
        np.testing.assert_array_equal(getattr(found, column), getattr(lru, column), err_msg=column)


def test_the_live_cache_stands_in_for_a_shadow_that_rests(
    trace: Trace, engine: CacheConfig, costs: CostProfile
) -> None:
    """Its counts are the live cache's while it rests, and what is learned next it obeys from there on."""
    cache = with_rules_in_shadow(trace, engine, costs, 300)
    cache.run(400)
    cache.switch(Arm.HAZARD)
    cache.rest(Arm.FIXED_KEY)
    assert cache.running == (Arm.LRU, Arm.HAZARD)
    cache.run(600)
    np.testing.assert_array_equal(cache.shadow(Arm.FIXED_KEY).out[400:600], cache.live.out[400:600])
    assert cache.learn(Arm.FIXED_KEY, rules(RankForm.FIXED_KEY))
    assert not cache.learn(Arm.HAZARD, rules(RankForm.HAZARD))
    assert cache.running == tuple(Arm)
    cache.run(trace.n_requests)
    assert (cache.shadow(Arm.FIXED_KEY).out[600:] != cache.live.out[600:]).any()


def test_a_sampled_shadow_does_not_rest_and_is_nobodys_twin(trace: Trace, costs: CostProfile) -> None:
    """It holds less than the live cache, which therefore cannot stand in for it."""
    engine = CacheConfig(*CAPACITIES[Timing.INSTANT], store_mode=StoreMode.LAZY)
    cache = LearnedCache(trace, engine, costs, shadow_frac=0.5)
    cache.run(300)
    cache.know(rules(RankForm.HAZARD).packed)
    for form in RankForm:
        assert cache.learn(Arm.of(form), rules(form))
    cache.switch(Arm.HAZARD)
    cache.rest(Arm.FIXED_KEY)
    cache.run(trace.n_requests)
    assert cache.running == tuple(Arm)
    seen = cache.seen > 0
    for arm in Arm:
        found = cache.shadow(arm).out
        assert found[seen].any() and not found[~seen].any()


def test_under_a_rule_for_the_device_alone_the_host_is_lru_by_itself(trace: Trace, costs: CostProfile) -> None:
    """An engine whose host nobody governs has plain LRU there, with copies in turn with all others."""
    engine = CacheConfig(*CAPACITIES[Timing.INSTANT], store_mode=StoreMode.LAZY)
    cache = LearnedCache(trace, engine, costs, shadows=False)
    never = HazardRules(
        rules(RankForm.HAZARD).packed, np.zeros_like(gain_table(example_reuse_model(), 0.0)), tick_s=10.0
    )
    cache.obey(never, (Tier.DEVICE,))
    cache.run(trace.n_requests)
    assert cache.result().stored.sum() > 500
    assert set(np.unique(cache.live.host.nodes[: trace.n_blocks, WHERE])) <= {0, 1}  # no copies apart
