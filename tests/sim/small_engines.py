"""Engines with few blocks, for properties of the learned cache."""

from __future__ import annotations

from hypothesis import strategies as st

from autotune.core.types import StoreMode, Timing
from autotune.sim.config import CacheConfig


@st.composite
def small_engines(draw: st.DrawFn) -> CacheConfig:
    """Engines in every mode, with few blocks."""
    host = draw(st.just(0) | st.integers(1, 12))
    return CacheConfig(
        device_blocks=draw(st.integers(1, 10)),
        host_blocks=host,
        disk_blocks=draw(st.just(0) | st.integers(1, 15)) if host else 0,
        store_mode=draw(st.sampled_from(StoreMode)),
        timing=draw(st.sampled_from(Timing)),
        itl_s=draw(st.sampled_from([0.0, 0.008, 1.0])),
        full_blocks=draw(st.booleans()),
        min_load_blocks=draw(st.integers(0, 2)),
        check_break_even=draw(st.booleans()),
    )
