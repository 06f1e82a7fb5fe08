"""What an online run gained, the store mode's part and the learned part apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.types import StoreMode
from autotune.online.account import Gain, lru_runs, peak_rss_bytes
from autotune.sim.config import CacheConfig
from autotune.testing.streams import Ask, make_costs, make_trace

SECONDS = st.floats(1e-3, 1e6)


@given(SECONDS, SECONDS, SECONDS)
def test_parts_add_up(stock_s: float, staged_s: float, live_s: float) -> None:
    """The gain of the mode and that of learning are the whole gain."""
    gain = Gain.of(stock_s, staged_s, live_s)
    size = max(stock_s, staged_s, live_s) / stock_s
    assert gain.mode_frac + gain.learning_frac == pytest.approx(gain.total_frac, abs=1e-12 * size)
    assert gain.total_frac == pytest.approx(1.0 - live_s / stock_s, abs=1e-12 * size)


def test_nothing_is_gained_where_nothing_is_spent() -> None:
    """Without seconds there are no shares of them."""
    assert Gain.of(0.0, 0.0, 0.0) == Gain(0.0, 0.0, 0.0)


def test_stock_lru_stores_eagerly_whatever_the_engine_does() -> None:
    """Beside a lazy engine stand LRU with eager stores and LRU with lazy ones; beside an eager one there is but one."""
    trace = make_trace([Ask(float(i), [i % 5, 10 + i % 3]) for i in range(40)])
    stock, staged = lru_runs(trace, CacheConfig(2, 4, store_mode=StoreMode.LAZY), make_costs())
    assert (stock.config.store_mode, staged.config.store_mode) == (StoreMode.EAGER, StoreMode.LAZY)
    assert stock.stored.sum() > staged.stored.sum()
    stock, staged = lru_runs(trace, CacheConfig(2, 4), make_costs())
    assert stock is staged


def test_memory_never_shrinks() -> None:
    """The peak is that of the process so far."""
    before = peak_rss_bytes()
    held = bytearray(64 * 2**20)
    assert peak_rss_bytes() >= before > 2**20
    assert len(held) == 64 * 2**20
