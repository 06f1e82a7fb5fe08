"""What an online run gained, the store mode's part and the learned part apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trace import Trace
from autotune.core.types import StoreMode
from autotune.online.account import Gain, lru_runs, peak_rss_bytes
from autotune.online.settings import OnlineSettings
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.testing.streams import Ask, make_costs, make_trace

SECONDS = st.floats(1e-3, 1e6)


@given(SECONDS, SECONDS, SECONDS)
def test_parts_add_up(stock_s: float, joint_s: float, live_s: float) -> None:
    """The gain of the mode and that of learning are the whole gain."""
    gain = Gain.of(stock_s, joint_s, live_s)
    size = max(stock_s, joint_s, live_s) / stock_s
    assert gain.mode_frac + gain.learning_frac == pytest.approx(gain.total_frac, abs=1e-12 * size)
    assert gain.total_frac == pytest.approx(1.0 - live_s / stock_s, abs=1e-12 * size)


def test_nothing_is_gained_where_nothing_is_spent() -> None:
    """Without seconds there are no shares of them."""
    assert Gain.of(0.0, 0.0, 0.0) == Gain(0.0, 0.0, 0.0)


@pytest.fixture
def trace() -> Trace:
    """Forty requests over fifteen blocks, some of which come back while the device holds them."""
    return make_trace([Ask(float(i), [i % 5, 10 + i % 3]) for i in range(40)])


@pytest.mark.parametrize("mode", [StoreMode.LAZY, StoreMode.EXCLUSIVE])
def test_stock_lru_stores_eagerly_whatever_the_engine_does(trace: Trace, mode: StoreMode) -> None:
    """Beside an engine that stores late stand LRU with eager stores, LRU with its own, and one LRU over both tiers."""
    engine = CacheConfig(2, 4, store_mode=mode)
    runs = lru_runs(trace, engine, make_costs())
    modes = (runs.stock.config.store_mode, runs.staged.config.store_mode, runs.joint.config.store_mode)
    assert modes == (StoreMode.EAGER, mode, mode)
    assert runs.stock.stored.sum() > runs.staged.stored.sum()
    np.testing.assert_array_equal(runs.staged.host_hit, simulate_cache(trace, engine, make_costs()).host_hit)
    np.testing.assert_array_equal(runs.joint.host_hit, simulate_joint_lru(trace, engine, make_costs()).host_hit)


def test_with_eager_stores_there_is_but_one_lru(trace: Trace) -> None:
    """Nothing runs twice."""
    runs = lru_runs(trace, CacheConfig(2, 4), make_costs())
    assert runs.stock is runs.staged is runs.joint


def test_the_lru_of_the_loop_keeps_its_write_budget(trace: Trace) -> None:
    """What learning gained is told beside LRU under the same budget; LRU as engines do it knows none."""
    engine, costs = CacheConfig(2, 4, store_mode=StoreMode.LAZY), make_costs()
    block_bytes = trace.block_tokens * costs.kv_bytes_per_token
    budget = OnlineSettings(write_bytes_per_s=block_bytes / 10.0, write_burst_s=0.0)
    free, bound = lru_runs(trace, engine, costs), lru_runs(trace, engine, costs, budget)
    assert bound.joint.stored.sum() < free.joint.stored.sum()
    np.testing.assert_array_equal(bound.staged.stored, free.staged.stored)
    eager = lru_runs(trace, CacheConfig(2, 4), costs, budget)
    assert eager.joint.stored.sum() < eager.stock.stored.sum()


def test_memory_never_shrinks() -> None:
    """The peak is that of the process so far."""
    before = peak_rss_bytes()
    held = bytearray(64 * 2**20)
    assert peak_rss_bytes() >= before > 2**20
    assert len(held) == 64 * 2**20
