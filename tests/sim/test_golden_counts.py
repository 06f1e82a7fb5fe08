"""Hits on the two sample traces that anybody's simulator of these semantics must reproduce."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache, simulate_plainly
from autotune.sim.result import CacheResult
from autotune.testing.streams import make_costs

ACCESSES = {"conversation": 180_012, "synthetic": 60_671}
INFINITE = {"conversation": 62_738, "synthetic": 23_152}
HITS = {
    ("conversation", "lru", 1_000): 7_883,
    ("conversation", "lru", 4_000): 15_731,
    ("conversation", "lru", 16_000): 46_340,
    ("conversation", "clairvoyant", 1_000): 33_761,
    ("conversation", "clairvoyant", 4_000): 56_656,
    ("conversation", "clairvoyant", 16_000): 62_738,
    ("synthetic", "lru", 1_000): 1_123,
    ("synthetic", "lru", 4_000): 4_497,
    ("synthetic", "lru", 16_000): 17_102,
    ("synthetic", "clairvoyant", 1_000): 9_708,
    ("synthetic", "clairvoyant", 4_000): 18_682,
    ("synthetic", "clairvoyant", 16_000): 23_152,
}
Simulate = Callable[[Trace, CacheConfig, CostProfile], CacheResult]


@pytest.fixture(scope="module")
def samples() -> dict[str, Trace]:
    """Both traces by name."""
    return {name: Trace.open(f"sample:{name}") for name in ACCESSES}


@pytest.mark.parametrize("simulate", [simulate_cache, simulate_plainly])
@pytest.mark.parametrize(("name", "policy", "blocks"), HITS)
def test_device_hits(samples: dict[str, Trace], name: str, policy: str, blocks: int, simulate: Simulate) -> None:
    """LRU and the farthest next use find exactly so many blocks, compiled and plain."""
    config = CacheConfig(blocks, device_policy=PolicySpec(policy))
    totals = simulate(samples[name], config, make_costs()).totals()
    assert totals.accesses == ACCESSES[name]
    assert totals.device_hit_blocks == HITS[name, policy, blocks]
    assert totals.computed_blocks == ACCESSES[name] - HITS[name, policy, blocks]


@pytest.mark.parametrize("name", INFINITE)
def test_cache_without_limit(samples: dict[str, Trace], name: str) -> None:
    """A device that holds everything finds all that was ever there."""
    trace = samples[name]
    totals = simulate_cache(trace, CacheConfig(trace.n_blocks), make_costs()).totals()
    assert totals.device_hit_blocks == INFINITE[name]
    assert totals.evicted_device_blocks == 0
