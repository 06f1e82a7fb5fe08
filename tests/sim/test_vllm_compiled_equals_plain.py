"""In vllm mode too the compiled loop decides as the plain reference does, chunk by chunk."""

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
from autotune.core.types import EngineSemantics, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import CacheResult
from autotune.sim.tiers import has_compiled_vllm_twin
from autotune.sim.vllm_decisions import Runs, VllmDecisions, vllm_decisions, vllm_decisions_plainly
from autotune.testing.streams import cost_profiles, traces

COMPILED = [name for name in registry.names(registry.POLICIES) if has_compiled_vllm_twin(PolicySpec(name))]
COLUMNS = [field.name for field in fields(CacheResult) if field.name not in ("trace", "config", "costs")]
DECISIONS = [field.name for field in fields(VllmDecisions) if field.name != "result"]
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
def vllm_configs(draw: st.DrawFn, name: str) -> CacheConfig:
    """Engines with vLLM's rules and the named policy on the host, with few blocks."""
    chunk = draw(st.integers(1, 3))
    return CacheConfig(
        device_blocks=draw(st.integers(1, 10)),
        host_blocks=draw(st.integers(chunk, 14)),
        device_policy=draw(st.sampled_from(["lru", "rank", "clairvoyant"]).map(PolicySpec)),
        host_policy=draw(RANK) if name == "rank" else PolicySpec(name),
        timing=draw(st.sampled_from(Timing)),
        itl_s=draw(st.sampled_from([0.0, 0.008, 1.0])),
        chunk_blocks=chunk,
        min_load_blocks=draw(st.integers(0, 2)),
        check_break_even=draw(st.booleans()),
        semantics=EngineSemantics.VLLM_0_32,
    )


def assert_same_decisions(one: VllmDecisions, other: VllmDecisions) -> None:
    """Every count and every decision of both runs is the same."""
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one.result, name), getattr(other.result, name), err_msg=name)
    for name in DECISIONS:
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, Runs):
            np.testing.assert_array_equal(left.offsets, right.offsets, err_msg=name)
            left, right = left.ids, right.ids
        np.testing.assert_array_equal(left, right, err_msg=name)


def test_lru_and_what_evicts_the_smallest_key_are_compiled() -> None:
    """The policies that a search runs by the hundred are compiled in vllm mode too."""
    assert {"lru", "rank", "clairvoyant", "clairvoyant_seconds"} <= set(COMPILED)


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=60)
@given(data=st.data(), trace=traces(), costs=cost_profiles())
def test_decisions_are_equal(name: str, data: st.DataObject, trace: Trace, costs: CostProfile) -> None:
    """Lookups, offers, stores and evictions are the same chunk by chunk, whatever policy, timing, chunks and costs."""
    config = data.draw(vllm_configs(name))
    compiled = vllm_decisions(trace, config, costs)
    assert_same_decisions(compiled, vllm_decisions_plainly(trace, config, costs))
    for column in COLUMNS:
        quiet = getattr(simulate_cache(trace, config, costs), column)
        np.testing.assert_array_equal(quiet, getattr(compiled.result, column), err_msg=column)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", COMPILED)
@given(data=st.data(), trace=traces(max_requests=150, depth=8), costs=cost_profiles())
def test_decisions_are_equal_on_longer_streams(
    name: str, data: st.DataObject, trace: Trace, costs: CostProfile
) -> None:
    """The same on longer and deeper streams."""
    config = data.draw(vllm_configs(name))
    assert_same_decisions(vllm_decisions(trace, config, costs), vllm_decisions_plainly(trace, config, costs))
