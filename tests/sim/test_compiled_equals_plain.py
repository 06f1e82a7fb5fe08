"""The compiled loop gives what the plain reference gives, column by column, for all policies and modes."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache, simulate_plainly
from autotune.sim.result import CacheResult
from autotune.sim.tiers import has_compiled_twin
from autotune.testing.streams import Ask, cost_profiles, make_costs, make_trace, traces

COMPILED = [name for name in registry.names(registry.POLICIES) if has_compiled_twin(PolicySpec(name))]
COLUMNS = [field.name for field in fields(CacheResult) if field.name not in ("trace", "config", "costs")]
RANK = st.builds(
    PolicySpec.of,
    st.just("rank"),
    lambda_recency=st.sampled_from([0.01, 0.3, 0.9, 1.0]),
    tau_s=st.sampled_from([0.0, 3.0, 100.0]),
    half_life_s=st.sampled_from([0.0, 5.0]),
    cost_weight=st.sampled_from([0.0, 0.7]),
    ghost_ratio=st.sampled_from([0.0, 0.5, 2.0]),
    admission=st.sampled_from([0.0, 1.0, 2.0]),
)


@st.composite
def configs(draw: st.DrawFn, name: str) -> CacheConfig:
    """Engines with the named policy on some tier, in every mode, with few blocks."""
    specs = RANK if name == "rank" else st.just(PolicySpec(name))
    others = st.just(PolicySpec("lru"))
    store = draw(st.sampled_from(StoreMode))
    chunk = draw(st.integers(1, 3)) if store is StoreMode.EAGER else 1
    host = draw(st.just(0) | st.integers(chunk, 12))
    return CacheConfig(
        device_blocks=draw(st.integers(1, 10)),
        host_blocks=host,
        disk_blocks=draw(st.just(0) | st.integers(chunk, 15)) if host else 0,
        device_policy=draw(specs | others),
        host_policy=draw(specs),
        disk_policy=draw(specs | others),
        store_mode=store,
        timing=draw(st.sampled_from(Timing)),
        itl_s=draw(st.sampled_from([0.0, 0.008, 1.0])),
        full_blocks=draw(st.booleans()),
        chunk_blocks=chunk,
        min_load_blocks=draw(st.integers(0, 2)),
        check_break_even=draw(st.booleans()),
    )


def assert_equal(trace: Trace, config: CacheConfig, costs: CostProfile) -> None:
    """All columns of both loops are the same."""
    compiled, plain = simulate_cache(trace, config, costs), simulate_plainly(trace, config, costs)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(compiled, name), getattr(plain, name), err_msg=name)


def test_every_shipped_policy_is_compiled() -> None:
    """No policy falls back to the plain loop, but for that of the vllm mode and the two hand-set scores of peers."""
    shipped = {name for name in registry.names(registry.POLICIES) if registry.load(registry.POLICIES, name)}
    assert shipped - {"vllm_arc", "evoke", "marconi"} == set(COMPILED)
    assert len(COMPILED) >= 13


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=60)
@given(data=st.data(), trace=traces(), costs=cost_profiles())
def test_columns_are_equal(name: str, data: st.DataObject, trace: Trace, costs: CostProfile) -> None:
    """Every count of every request is the same, whatever the policy, the mode, the tiers and the costs."""
    assert_equal(trace, data.draw(configs(name)), costs)


def test_every_tier_knows_whose_start_pushes_blocks_down() -> None:
    """Under service timing the start of a request may reach the disk, whose policy then has to know the request."""
    spec = PolicySpec("clairvoyant_seconds")
    tiers = {"device_policy": spec, "host_policy": spec, "disk_policy": spec}
    modes = {"store_mode": StoreMode.LAZY, "timing": Timing.SERVICE, "check_break_even": False}
    deep = [0, *range(5, 12)]
    prompts = [[], [], [], [0, 1, 2, 3, 4], [], [], deep, [0, 1, 2, 3, 12], [], deep]
    trace = make_trace([Ask(0.0, blocks) for blocks in prompts])
    config = CacheConfig(6, 1, 1, itl_s=0.0, **tiers, **modes)  # type: ignore[arg-type]
    assert_equal(trace, config, make_costs(prefill_linear_s=0.01, load_bytes_per_s=1e6, disk_bytes_per_s=2.0))


@pytest.mark.fuzz
@pytest.mark.parametrize("name", COMPILED)
@given(data=st.data(), trace=traces(max_requests=150, depth=8), costs=cost_profiles())
def test_columns_are_equal_on_longer_streams(name: str, data: st.DataObject, trace: Trace, costs: CostProfile) -> None:
    """The same on longer and deeper streams."""
    assert_equal(trace, data.draw(configs(name)), costs)
