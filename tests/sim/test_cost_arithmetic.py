"""Seconds and bytes of a simulation: sums worked out by hand, and what always adds up."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.core.types import StoreMode
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import Totals
from autotune.testing.streams import Ask, cost_profiles, make_costs, make_trace, traces


def test_seconds_by_hand() -> None:
    """Ten tokens in three blocks, twice; the second time the device has the first block and the host the rest."""
    costs = make_costs(
        prefill_quadratic_s=0.1,
        load_latency_s=0.25,
        store_latency_s=0.125,
        store_exposed_frac=0.5,
        store_bytes_per_s=4.0,
    )
    trace = make_trace([Ask(0.0, [1, 2, 3], input_tokens=10), Ask(1.0, [1, 2, 3], input_tokens=10)])
    result = simulate_cache(trace, CacheConfig(1, 8), costs)
    assert (result.device_hit.tolist(), result.host_hit.tolist()) == ([0, 1], [0, 2])
    # Prefill of 10 tokens: 10 + 0.1 * 10 * 11 / 2 = 15.5 s. Load of 8 bytes: 0.25 + 1 s. Store of 12: 0.125 + 3 s.
    assert result.recompute_s().tolist() == pytest.approx([15.5, 0.0])
    assert result.recompute_saved_s().tolist() == pytest.approx([0.0, 15.5])
    assert result.load_s().tolist() == pytest.approx([0.0, 1.25])
    assert result.store_s().tolist() == pytest.approx([3.125, 0.0])
    totals = result.totals()
    assert (totals.prompt_tokens, totals.hit_tokens) == (20, 10)  # the third block holds 2 of its 4 tokens
    assert totals.store_exposed_s == pytest.approx(1.5625)
    assert totals.net_seconds_saved == pytest.approx(15.5 - 1.25 - 1.5625)
    assert totals.cost_s == pytest.approx(15.5 + 1.25 + 1.5625)
    assert (totals.stored_bytes, totals.loaded_bytes) == (12, 8)


@given(trace=traces(), costs=cost_profiles(), device=st.integers(1, 6), store=st.sampled_from(StoreMode))
def test_seconds_add_up(trace: Trace, costs: CostProfile, device: int, store: StoreMode) -> None:
    """What is computed and what is saved are the prefill of everything, and the net is what its name says."""
    totals = simulate_cache(trace, CacheConfig(device, 6, 6, store_mode=store), costs).totals()
    everything_s = float(costs.prefill_s(trace.input_tokens).sum())
    assert totals.recompute_s + totals.recompute_saved_s == pytest.approx(everything_s)
    saved_s = totals.recompute_saved_s - totals.load_s - totals.store_exposed_s
    assert totals.net_seconds_saved == pytest.approx(saved_s)
    assert totals.cost_s == pytest.approx(everything_s - totals.net_seconds_saved)
    assert totals.loaded_bytes == (totals.host_hit_blocks + totals.disk_hit_blocks) * trace.block_tokens
    assert totals.hit_tokens <= totals.prompt_tokens


@given(trace=traces(), costs=cost_profiles(), cut=st.integers(0, 40))
def test_parts_add_up_to_the_whole(trace: Trace, costs: CostProfile, cut: int) -> None:
    """Counting from a request on and counting up to it split every sum in two."""
    result = simulate_cache(trace, CacheConfig(3, 5, 7), costs)
    whole, before, after = result.totals(), result.totals(0, cut), result.totals(cut)
    for field in fields(Totals):
        parts = getattr(before, field.name) + getattr(after, field.name)
        assert parts == pytest.approx(getattr(whole, field.name), abs=1e-9), field.name
