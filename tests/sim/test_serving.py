"""Latencies on top of a simulated cache, and when they are refused."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.settings import QueueSettings
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.serving import latencies, queue_for, under_lru
from autotune.testing.streams import Ask, make_costs, make_trace

# A prompt of 4 s every 10 s, without reuse: a load of about 0.44 over the span of 90 s.
TRACE = make_trace([Ask(10.0 * i, [i]) for i in range(10)])


def test_a_stable_load_has_a_queue_with_the_settings() -> None:
    """Everything that the settings say arrives in the queue, and the note says the load."""
    lru = simulate_cache(TRACE, CacheConfig(2), make_costs())
    settings = QueueSettings(servers=2, time_scale=0.9, prefetch_depth=3, overlap_beta=0.25, ttft_goal_ms=1500.0)
    queue, note = queue_for(lru, settings, required=True, seed=4)
    assert queue is not None
    assert (queue.servers, queue.time_scale, queue.prefetch_depth, queue.overlap_frac) == (2, 0.9, 3, 0.25)
    assert (queue.ttft_target_s, queue.seed) == (1.5, 4)
    assert "0.25 for LRU with 2 prefill servers, time scale 0.9" in note


def test_an_unstable_load_is_a_note_or_an_error() -> None:
    """Nobody asked: no latencies, and why. Somebody asked: an error with the measured load."""
    lru = simulate_cache(TRACE, CacheConfig(2), make_costs(prefill_linear_s=2.5))
    queue, note = queue_for(lru, QueueSettings(), required=False, seed=0)
    assert queue is None
    assert note.startswith("TTFT is not reported: load 1.11 under LRU with 1 prefill server")
    with pytest.raises(SimulationError, match=r"1\.11"):
        queue_for(lru, QueueSettings(), required=True, seed=0)
    assert queue_for(lru, QueueSettings(time_scale=2.0), required=True, seed=0)[0] is not None


def test_an_overloaded_link_is_unstable_too() -> None:
    """Loads that the link cannot carry are refused although the servers have time."""
    prompts = [[1], [2]] * 10
    trace = make_trace([Ask(float(i), blocks) for i, blocks in enumerate(prompts)])
    costs = make_costs(load_bytes_per_s=4.0)  # 1 s per block, one block per second
    lru = simulate_cache(trace, CacheConfig(1, 8, check_break_even=False), costs)
    with pytest.raises(SimulationError, match="on the host link"):
        queue_for(lru, QueueSettings(), required=True, seed=0)


def test_only_what_is_measured_decides() -> None:
    """A burst in the part that only warms up does not count."""
    burst = make_trace([*[Ask(0.0, [i]) for i in range(50)], *[Ask(100.0 + 10.0 * i, [100 + i]) for i in range(5)]])
    lru = simulate_cache(burst, CacheConfig(2), make_costs())
    assert queue_for(lru, QueueSettings(), required=False, seed=0)[0] is None
    assert queue_for(lru, QueueSettings(), required=False, seed=0, start=50)[0] is not None


def test_latencies_are_those_of_the_measured_requests() -> None:
    """Without waiting every first token comes after its prefill; hits bring it forward."""
    trace = make_trace([Ask(100.0 * i, [1, i]) for i in range(2, 6)])
    cache = simulate_cache(trace, CacheConfig(8), make_costs())
    queue, _ = queue_for(cache, QueueSettings(), required=True, seed=0)
    assert queue is not None
    result = latencies(cache, queue, (1, 4))
    assert result.ttft_s.tolist() == [4.0, 4.0, 4.0]
    assert latencies(cache, queue, (0, 2)).ttft_s.tolist() == [8.0, 4.0]


def test_exposed_stores_hold_the_server_up() -> None:
    """Half of the 0.5 s that a block's store takes delays its request."""
    costs = make_costs(store_exposed_frac=0.5)
    cache = simulate_cache(TRACE, CacheConfig(2, 8), costs)
    queue, _ = queue_for(cache, QueueSettings(), required=True, seed=0)
    assert queue is not None
    assert latencies(cache, queue, (0, 3)).ttft_s.tolist() == [4.25, 4.25, 4.25]


def test_lru_is_simulated_once_where_it_is_known() -> None:
    """A result of the very engine with LRU is taken as it is; any other policy is replaced by LRU."""
    known = simulate_cache(TRACE, CacheConfig(2), make_costs())
    assert under_lru(TRACE, CacheConfig(2), make_costs(), known) is known
    other = CacheConfig(2, device_policy=PolicySpec("fifo"))
    fifo = simulate_cache(TRACE, other, make_costs())
    lru = under_lru(TRACE, other, make_costs(), fifo)
    assert lru.config == CacheConfig(2)
    assert np.array_equal(lru.device_hit, known.device_hit)
