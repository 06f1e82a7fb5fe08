"""The loop in trace time: causal, never worse than what it guards against, and within its budgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.core.types import Arm, StoreMode, Timing
from autotune.costs import load_hardware, profile
from autotune.geometry import load_model
from autotune.online.settings import GuardSettings, OnlineSettings
from autotune.online.simulate import OnlineResult, simulate_online
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.sim.result import CacheResult

COLUMNS = ("device_hit", "host_hit", "stored", "evicted_device", "evicted_host")
NEVER = OnlineSettings(guard=GuardSettings(min_periods=10**9))


def same_columns(one: CacheResult, other: CacheResult) -> None:
    """Two caches found, stored and evicted the same, request by request."""
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), err_msg=column)


@pytest.fixture(scope="module")
def costs() -> CostProfile:
    """An 8B model on one H100."""
    return profile(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))


@pytest.fixture(scope="module")
def conversation() -> Trace:
    """The bundled part of a production trace."""
    return Trace.open("sample:conversation")


@pytest.fixture(scope="module", params=list(Timing))
def engine(request: pytest.FixtureRequest, conversation: Trace) -> CacheConfig:
    """Device 1 % of the footprint, host four times that, lazy stores."""
    device = conversation.n_blocks // 100
    return CacheConfig(device, 4 * device, store_mode=StoreMode.LAZY, timing=request.param)


@pytest.fixture(scope="module")
def learned(conversation: Trace, engine: CacheConfig, costs: CostProfile) -> OnlineResult:
    """The loop with its defaults."""
    return simulate_online(conversation, engine, costs)


@pytest.mark.parametrize("store", list(StoreMode))
def test_a_loop_that_never_changes_is_lru_access_by_access(
    conversation: Trace, engine: CacheConfig, costs: CostProfile, store: StoreMode
) -> None:
    """Before anything is obeyed, the live cache is one LRU over both tiers; with eager stores that of engines."""
    engine = replace(engine, store_mode=store)
    result = simulate_online(conversation, engine, costs, NEVER)
    lru = simulate_joint_lru(conversation, engine, costs)
    same_columns(result.cache, lru)
    if store is StoreMode.EAGER:
        same_columns(result.cache, simulate_cache(conversation, engine, costs))
    assert result.learned_frac == 0.0


@pytest.mark.parametrize("store", list(StoreMode))
def test_under_instant_timing_the_shadow_of_lru_is_lru_whatever_the_live_cache_obeys(
    conversation: Trace, costs: CostProfile, store: StoreMode
) -> None:
    """What was learned is obeyed for most of the run, and the shadow equals one LRU over both tiers all the same."""
    device = conversation.n_blocks // 100
    engine = CacheConfig(device, 4 * device, store_mode=store)
    result = simulate_online(conversation, engine, costs)
    assert result.learned_frac > 0.5
    same_columns(result.lru, simulate_joint_lru(conversation, engine, costs))


def test_it_learns_and_saves_seconds(learned: OnlineResult) -> None:
    """On a production trace the loop ends up obeying what it learned, and saves more than a per cent of all seconds."""
    assert learned.learned_frac > 0.5
    assert learned.cache.totals().cost_s < 0.99 * learned.lru.totals().cost_s


def test_it_knows_nothing_of_the_future(
    conversation: Trace, engine: CacheConfig, costs: CostProfile, learned: OnlineResult
) -> None:
    """Cut off the second half of the trace, and the first half goes as before, up to what still ran at the cut."""
    half = conversation.n_requests // 2
    part = simulate_online(conversation.slice(0, half), engine, costs)
    known = half if engine.timing is Timing.INSTANT else half - 200
    for column in ("device_hit", "host_hit"):
        whole = getattr(learned.cache, column)[:known]
        np.testing.assert_array_equal(getattr(part.cache, column)[:known], whole)


def test_the_same_seed_gives_the_same_run(
    conversation: Trace, engine: CacheConfig, costs: CostProfile, learned: OnlineResult
) -> None:
    """Nothing depends on the clock or on chance beyond the seed."""
    again = simulate_online(conversation, engine, costs)
    np.testing.assert_array_equal(again.cache.host_hit, learned.cache.host_hit)
    assert again.happenings == learned.happenings


@pytest.mark.parametrize("kind", ["scan_flood", "regime_switch", "trap", "loops", "reversed_popularity"])
def test_it_never_costs_half_a_per_cent_more_than_lru(kind: str, costs: CostProfile) -> None:
    """Traces made to hurt learned policies do not, whole runs counted."""
    trace = Trace.open(f"adversarial:{kind},seed=3")
    for share in (0.0025, 0.02, 0.2):
        device = max(1, int(share * trace.n_blocks))
        engine = CacheConfig(device, 4 * device, store_mode=StoreMode.LAZY)
        stock = simulate_cache(trace, replace(engine, store_mode=StoreMode.EAGER), costs).totals().cost_s
        assert simulate_online(trace, engine, costs).cache.totals().cost_s <= 1.005 * stock


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_write_budget_holds(conversation: Trace, engine: CacheConfig, costs: CostProfile, share: float) -> None:
    """Bytes stored stay within budget times time, plus what may be saved up, and seconds are saved all the same."""
    stock = simulate_cache(conversation, replace(engine, store_mode=StoreMode.EAGER), costs)
    written = int(stock.stored.sum()) * stock.block_bytes
    bytes_per_s = share * written / conversation.span_s
    settings = OnlineSettings(write_bytes_per_s=bytes_per_s, write_burst_s=60.0)
    result = simulate_online(conversation, engine, costs, settings)
    span_s = conversation.span_s + float(result.cache.wait_s.max()) + 120.0
    assert int(result.cache.stored.sum()) * stock.block_bytes <= bytes_per_s * (span_s + 60.0)
    assert result.cache.totals().cost_s < stock.totals().cost_s


def test_sampled_shadows_see_whole_chains_and_come_to_the_same_end(conversation: Trace, costs: CostProfile) -> None:
    """With half of the chains the learned rule is taken too, and every shadow sees about half of the requests."""
    device = conversation.n_blocks // 100
    engine = CacheConfig(device, 4 * device, store_mode=StoreMode.LAZY)
    result = simulate_online(conversation, engine, costs, OnlineSettings(shadow_frac=0.5, shadow_min_blocks=1))
    looked = result.lru.device_hit + result.lru.host_hit
    assert 0 < np.count_nonzero(looked) < np.count_nonzero(result.cache.device_hit + result.cache.host_hit)
    assert result.learned_frac > 0.5


def test_where_the_host_never_fills_it_stays_with_lru_and_says_why(conversation: Trace, costs: CostProfile) -> None:
    """Nothing has to be decided in a cache that holds everything."""
    engine = CacheConfig(conversation.n_blocks, 4 * conversation.n_blocks, store_mode=StoreMode.LAZY)
    result = simulate_online(conversation, engine, costs)
    assert result.arm_frac[Arm.LRU] == 1.0
    assert {event.kind for event in result.happenings} == {"waits"}
    assert "not full" in result.happenings[0].reason


def test_under_a_backlog_time_is_the_engines(conversation: Trace, costs: CostProfile) -> None:
    """Requests that all come within a second and wait for room are served over minutes; the loop fits on those."""
    trace = conversation.slice(0, 1500)
    trace = replace(trace, arrival_s=trace.arrival_s / 1000.0)
    engine = CacheConfig(3000, 1500, store_mode=StoreMode.LAZY, timing=Timing.SERVICE)
    result = simulate_online(trace, engine, costs)
    served_s = trace.arrival_s + result.cache.wait_s
    assert served_s[-1] > 60.0 * trace.span_s
    assert result.fits
    times_s = [event.at_s for event in result.happenings]
    assert times_s == sorted(times_s)
    for fit in result.fits:
        assert 1.0 < fit.fitted_at_s < fit.in_force_at_s
        assert fit.model.near.horizon_s > 0.0
    assert result.fits[-1].fitted_at_s <= served_s[-1]
