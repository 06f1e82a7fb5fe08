"""One LRU over device and host: the compiled one equals the plain one, and never finds less than LRU on each tier."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_engines import small_engines

from autotune.api import cost_profile
from autotune.core.costs import CostProfile
from autotune.core.state import WHERE
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.sim.joint_reference import JointReference
from autotune.sim.learned import LearnedCache
from autotune.sim.prepare import make_result
from autotune.sim.result import CacheResult
from autotune.sim.stream import without_partial_blocks
from autotune.testing.streams import Ask, cost_profiles, make_costs, make_trace, traces

COLUMNS = [field.name for field in fields(CacheResult) if field.name not in ("trace", "config", "costs")]
BELOW = (StoreMode.LAZY, StoreMode.EXCLUSIVE)
SHARES = (0.0025, 0.01, 0.05, 0.2)


def found(cache: CacheResult) -> npt.NDArray[np.int32]:
    """``(n_requests,)`` blocks that each request found on device and host."""
    return cache.device_hit + cache.host_hit


def compiled_and_plain(trace: Trace, config: CacheConfig, costs: CostProfile) -> tuple[LearnedCache, JointReference]:
    """Both caches, neither of them run yet."""
    seen = without_partial_blocks(trace) if config.full_blocks else trace
    return LearnedCache(trace, config, costs, shadows=False), JointReference(seen, config, costs)


def assert_same_residents(compiled: LearnedCache, plain: JointReference) -> None:
    """The same blocks lie on each tier."""
    for tier, state in ((Tier.DEVICE, compiled.live.device), (Tier.HOST, compiled.live.host)):
        where = state.nodes[: compiled.trace.n_blocks, WHERE] if len(state.nodes) else np.zeros(0)
        assert set(np.flatnonzero(where).tolist()) == plain.residents(tier), tier


def assert_equal(compiled: LearnedCache, plain: JointReference) -> None:
    """All columns are the same, and so is what lies on each tier."""
    one = compiled.result()
    other = make_result(compiled.trace, compiled.config, compiled.costs, plain.out, plain.wait_ns)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert_same_residents(compiled, plain)


@settings(max_examples=80)
@given(trace=traces(), costs=cost_profiles(), config=small_engines())
def test_columns_and_residents_are_equal(trace: Trace, costs: CostProfile, config: CacheConfig) -> None:
    """Every count of every request and the residents at the end are the same, in every mode and under both timings."""
    compiled, plain = compiled_and_plain(trace, config, costs)
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)


@settings(max_examples=40)
@given(trace=traces(), config=small_engines())
def test_residents_are_equal_after_every_request(trace: Trace, config: CacheConfig) -> None:
    """Under instant timing the same blocks lie on each tier after every single request, so that the same ones left."""
    compiled, plain = compiled_and_plain(trace, replace(config, timing=Timing.INSTANT), make_costs())
    for n, _ in enumerate(plain.steps()):
        compiled.run(n + 1)
        np.testing.assert_array_equal(compiled.live.out[: n + 1], plain.out[: n + 1])
        assert_same_residents(compiled, plain)


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("mode", StoreMode)
def test_the_bundled_trace_is_decided_alike(mode: StoreMode, timing: Timing) -> None:
    """On a production trace, in every mode and under both timings, hits, stores and evictions are the same."""
    trace = Trace.open("sample:conversation").slice(0, 600)
    config = CacheConfig(4_000 if timing is Timing.SERVICE else 300, 900, store_mode=mode, timing=timing)
    compiled, plain = compiled_and_plain(trace, config, make_costs())
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)
    assert compiled.result().evicted_host.sum() > 500


@settings(max_examples=150)
@given(
    trace=traces(),
    device=st.integers(1, 10),
    host=st.integers(1, 12),
    full_blocks=st.booleans(),
)
def test_every_request_finds_at_least_what_it_finds_under_lru_with_eager_stores(
    trace: Trace, device: int, host: int, full_blocks: bool
) -> None:
    """Both tiers together hold what was used last, which includes all that LRU on each tier holds; in either mode."""
    eager = CacheConfig(device, host, full_blocks=full_blocks, check_break_even=False)
    lru = simulate_cache(trace, eager, make_costs())
    lazy, exclusive = (simulate_joint_lru(trace, replace(eager, store_mode=mode), make_costs()) for mode in BELOW)
    np.testing.assert_array_equal(found(lazy), found(exclusive))
    np.testing.assert_array_equal(lazy.device_hit, lru.device_hit)
    assert (found(lazy) >= found(lru)).all()


@settings(max_examples=80)
@given(trace=traces(), costs=cost_profiles(), config=small_engines())
def test_with_eager_stores_it_is_lru(trace: Trace, costs: CostProfile, config: CacheConfig) -> None:
    """Column by column and request by request."""
    config = replace(config, store_mode=StoreMode.EAGER)
    joint, lru = simulate_joint_lru(trace, config, costs), simulate_cache(trace, config, costs)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(joint, name), getattr(lru, name), err_msg=name)


def test_a_copy_of_what_the_device_holds_makes_room_first() -> None:
    """The host gives up its copy of 2 when 4 comes down, and still has 3; listed LRU gives 3 up, which is older."""
    prompts = [[1, 2], [3], [4], [1, 2], [1, 2], [5], [3]]
    trace = make_trace([Ask(float(second), blocks) for second, blocks in enumerate(prompts)])
    config = CacheConfig(3, 2, store_mode=StoreMode.LAZY, check_break_even=False)
    assert found(simulate_joint_lru(trace, config, make_costs())).tolist() == [0, 0, 0, 2, 2, 0, 1]
    assert found(simulate_cache(trace, config, make_costs())).tolist() == [0, 0, 0, 2, 2, 0, 0]


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
@pytest.mark.parametrize("timing", Timing)
def test_on_the_bundled_traces_it_never_costs_more_than_lru(name: str, timing: Timing) -> None:
    """In either mode, at capacities from a quarter of a per cent to a fifth of the footprint, also under service."""
    trace, costs = Trace.open(f"sample:{name}"), cost_profile()[1]
    for share in SHARES:
        device = round(share * trace.n_blocks)
        eager = CacheConfig(device, 4 * device, timing=timing)
        lru_s = simulate_cache(trace, eager, costs).totals().cost_s
        for mode in BELOW:
            joint_s = simulate_joint_lru(trace, replace(eager, store_mode=mode), costs).totals().cost_s
            assert joint_s <= lru_s, (share, mode)
