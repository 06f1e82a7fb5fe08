"""Blocks of running requests are pinned and charged to the device: a case worked out by hand."""

from __future__ import annotations

import pytest

from autotune.core.errors import TraceError
from autotune.core.types import Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.testing.streams import Ask, make_costs, make_trace

ENGINE = CacheConfig(3, timing=Timing.SERVICE, itl_s=1.0)


def test_requests_wait_in_order_for_space() -> None:
    """Two prompts of two blocks do not fit side by side, and whoever comes later waits behind even if it would fit."""
    trace = make_trace(
        [
            Ask(0.0, [1, 2], output_tokens=2),  # runs from 0 to 8 + 2 = 10
            Ask(1.0, [1, 2]),  # shares its blocks, computes nothing, ends at 1
            Ask(2.0, [3, 4]),  # fits from 10 on; the idle block 2 has to go; ends at 18
            Ask(3.0, [1]),  # would fit at 3, but waits behind; finds 1 at 10
        ]
    )
    result = simulate_cache(trace, ENGINE, make_costs())
    assert result.wait_s.tolist() == [0.0, 0.0, 8.0, 7.0]
    assert result.device_hit.tolist() == [0, 2, 0, 1]
    assert result.evicted_device.tolist() == [0, 0, 1, 0]
    assert result.totals().waited_s == 15.0
    assert result.totals().oversized_requests == 0


def test_a_prompt_larger_than_the_device_runs_alone() -> None:
    """It waits until nothing else runs, is counted, and those behind it wait for its end."""
    trace = make_trace([Ask(0.0, [1]), Ask(1.0, [11, 12, 13, 14]), Ask(2.0, [1])])
    result = simulate_cache(trace, ENGINE, make_costs())
    assert result.oversized.tolist() == [0, 1, 0]
    assert result.wait_s.tolist() == [0.0, 3.0, 18.0]  # 1 ends at 4; the large one takes 16 s more
    assert result.device_hit.tolist() == [0, 0, 0]


def test_loads_take_time_too() -> None:
    """A load of a block delays the end by its 0.5 s on the link instead of 4 s of prefill."""
    trace = make_trace([Ask(0.0, [1]), Ask(10.0, [2]), Ask(20.0, [1]), Ask(20.0, [3])])
    engine = CacheConfig(1, 4, timing=Timing.SERVICE, itl_s=1.0)
    result = simulate_cache(trace, engine, make_costs())
    assert result.host_hit.tolist() == [0, 0, 1, 0]
    assert result.wait_s.tolist() == [0.0, 0.0, 0.0, 0.5]


def test_a_block_named_twice_is_refused() -> None:
    """Pins of a block that stands twice in one prompt mean nothing; instant timing has none and takes it."""
    trace = make_trace([Ask(0.0, [1, 2]), Ask(1.0, [3, 3])])
    with pytest.raises(TraceError, match="request 1 "):
        simulate_cache(trace, ENGINE, make_costs())
    assert simulate_cache(trace, CacheConfig(3), make_costs()).totals().accesses == 4
