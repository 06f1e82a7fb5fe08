"""Prices of room under a learned rule: the rank of the next to leave, where the rule is in force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.core.decide.fixed import odds_shift_ns
from autotune.core.decide.hazard import KEY_SCALE, age_bin, hazard_key
from autotune.core.decide.reuse_layout import N_AGE_BINS
from autotune.core.history import CLASS, IDLE_SINCE_NS, ODDS
from autotune.core.policy.rank_prices import ROOM_S
from autotune.core.state import CHILDREN, DEPTH, GHOST, NOW_NS, PINS, WHERE, TierState
from autotune.core.trace import Trace
from autotune.core.types import RankForm, StoreMode, Tier, Timing
from autotune.core.units import NS_PER_S
from autotune.sim.config import CacheConfig
from autotune.sim.governing import BOTH_TIERS
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import HazardRules
from autotune.sim.obeying import rules_of
from autotune.sim.rank_prices import marginal_ranks, next_to_leave
from autotune.testing.documents import example_learned_document
from autotune.testing.streams import Ask, make_costs, make_trace

DOCUMENT = example_learned_document()
COSTS = make_costs()


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Chains of three blocks, some of which come back soon and some late."""
    starts = np.random.default_rng(5).zipf(1.4, 400) % 40 * 10
    return make_trace([Ask(2.0 * i, [s, s + 1, s + 2]) for i, s in enumerate(starts.tolist())])


def rules() -> HazardRules:
    """The example's rule."""
    return rules_of(DOCUMENT)


def keys(copy_factor: float = 1.0) -> HazardRules:
    """The same with keys that stay."""
    return replace(rules(), form=RankForm.FIXED_KEY, copy_factor=copy_factor)


def free_blocks(state: TierState) -> list[int]:
    """Residents that nothing continues and no request uses."""
    residents = (state.nodes[:, WHERE] > 0) & (state.nodes[:, WHERE] < GHOST)
    return np.flatnonzero(residents & (state.nodes[:, PINS] == 0) & (state.nodes[:, CHILDREN] == 0)).tolist()


def value_term(state: TierState, block: int) -> int:
    """What the seconds at stake contribute to the key of a block."""
    return int(state.terms[min(int(state.nodes[block, DEPTH]), len(state.terms) - 1)])


def smallest_rank(state: TierState, given: HazardRules, tier: Tier) -> float:
    """Rank of the next to leave, from the definition."""
    gains = (given.packed.gains if tier is Tier.HOST else given.device_gains).reshape(-1, N_AGE_BINS)
    tick_ns = round(given.tick_s * NS_PER_S)
    began_ns = int(state.ints[NOW_NS]) // tick_ns * tick_ns
    found, edges_ns = [], given.packed.edges_ns.astype(np.float64)
    for block in free_blocks(state):
        age = age_bin(began_ns - int(state.shared[block, IDLE_SINCE_NS]), edges_ns)
        found.append(hazard_key(value_term(state, block), float(gains[state.shared[block, CLASS], age]), 1.0))
    return min(found) / (KEY_SCALE * NS_PER_S)


def smallest_key(state: TierState, given: HazardRules) -> float:
    """Key of the next to leave in seconds from now, from the definition."""
    unit_ns, found = given.packed.scale_ns, []
    for block in free_blocks(state):
        put_off_ns = odds_shift_ns(unit_ns, int(state.shared[block, ODDS])) + value_term(state, block)
        found.append(int(state.shared[block, IDLE_SINCE_NS]) - int(state.ints[NOW_NS]) + put_off_ns)
    return min(found) / NS_PER_S


@pytest.mark.parametrize("timing", Timing)
def test_rank_of_the_next_to_leave_is_that_of_the_rule(trace: Trace, timing: Timing) -> None:
    """What is looked up equals the smallest rank by the rule's definition, and looking changes nothing."""
    cache = LearnedCache(trace, CacheConfig(20, 40, timing=timing), COSTS, shadows=False)
    cache.know(rules().packed)
    cache.obey(rules())
    for stop in (100, 250, 400):
        cache.run(stop)
        for tier, state in ((Tier.DEVICE, cache.live.device), (Tier.HOST, cache.live.host)):
            before = state.nodes.copy(), state.heap.copy()
            assert next_to_leave(state, RankForm.HAZARD) == smallest_rank(state, rules(), tier) > 0.0
            assert np.array_equal(before[0], state.nodes)
            assert np.array_equal(before[1], state.heap)


@pytest.mark.parametrize("timing", Timing)
def test_key_of_the_next_to_leave_is_told_from_now(trace: Trace, timing: Timing) -> None:
    """Under keys that stay, what is looked up is the smallest key by its definition, less the present moment."""
    cache = LearnedCache(trace, CacheConfig(20, 40, timing=timing), COSTS, shadows=False)
    cache.know(keys().packed)
    cache.obey(keys())
    for stop in (100, 250, 400):
        cache.run(stop)
        for state in (cache.live.device, cache.live.host):
            assert next_to_leave(state, RankForm.FIXED_KEY) == pytest.approx(smallest_key(state, keys()), abs=1e-9)


@pytest.mark.parametrize("store_mode", StoreMode)
def test_keys_have_prices_too(trace: Trace, store_mode: StoreMode) -> None:
    """Where blocks leave, the price is a key that may stand before now; with more room an earlier one suffices."""
    found = [
        marginal_ranks(trace, CacheConfig(blocks, 40, store_mode=store_mode), COSTS, keys(), BOTH_TIERS)
        for blocks in (9, 30, 60, 200)
    ]
    prices = [each.device for each in found if each.device is not None]
    assert len(prices) == 4 and prices == sorted(prices, reverse=True)
    assert prices[0] > prices[2] > prices[3] == ROOM_S
    on_host = marginal_ranks(trace, CacheConfig(20, 30, store_mode=store_mode), COSTS, keys(), (Tier.HOST,))
    assert on_host.device is None and (on_host.host or ROOM_S) > ROOM_S


def test_copies_that_leave_first_are_room(trace: Trace) -> None:
    """A host full of copies has room for every block, and one whose copies count has a price."""
    engine = CacheConfig(20, 21, store_mode=StoreMode.LAZY)
    prices = [marginal_ranks(trace, engine, COSTS, keys(factor), BOTH_TIERS).host for factor in (0.0, 1.0)]
    assert prices[0] is not None and prices[1] is not None and ROOM_S <= prices[0] <= prices[1] != ROOM_S


@pytest.mark.parametrize("store_mode", StoreMode)
def test_scarce_room_has_a_price_and_plenty_has_none(trace: Trace, store_mode: StoreMode) -> None:
    """Where blocks leave there is a price above 0; where all fit it is 0; a tier that LRU governs has none."""
    tight = marginal_ranks(trace, CacheConfig(20, 30, store_mode=store_mode), COSTS, rules(), BOTH_TIERS)
    assert tight.device is not None
    assert tight.host is not None
    assert tight.device > 0.0
    assert tight.host > 0.0
    assert (tight.moments, tight.measured) == (64, (200, 400))
    roomy = marginal_ranks(trace, CacheConfig(200, 400, store_mode=store_mode), COSTS, rules(), BOTH_TIERS)
    assert (roomy.device, roomy.host) == (0.0, 0.0)
    on_host = marginal_ranks(trace, CacheConfig(20, 30, store_mode=store_mode), COSTS, rules(), (Tier.HOST,))
    assert on_host.device is None
    assert on_host.host is not None


def test_more_room_is_cheaper(trace: Trace) -> None:
    """With a larger device the next to leave saves less, and a run repeated gives the same price."""
    prices = [
        marginal_ranks(trace, CacheConfig(blocks, 40), COSTS, rules(), BOTH_TIERS).device or 0.0
        for blocks in (9, 30, 60, 60)
    ]
    assert prices[0] > prices[1] > prices[2] == prices[3]


def test_a_trace_of_one_request_can_be_measured() -> None:
    """There is one moment to look at, and nothing left."""
    found = marginal_ranks(make_trace([Ask(0.0, [1, 2])]), CacheConfig(4, 4), COSTS, rules(), BOTH_TIERS)
    assert (found.moments, found.device, found.host) == (1, 0.0, 0.0)
