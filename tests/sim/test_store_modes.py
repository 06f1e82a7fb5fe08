"""Which blocks reach the host and the disk, when, and when they are loaded: small cases worked out by hand.

A block has 4 tokens and 4 bytes; computing it takes 4 s, and a transfer 0.5 s at 8 bytes per second.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autotune.core.eviction import PolicySpec
from autotune.core.types import StoreMode, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import CacheResult
from autotune.testing.streams import Ask, make_costs, make_trace


def run(prompts: Sequence[Sequence[int]], config: CacheConfig, **costs: float) -> CacheResult:
    """One prompt per second."""
    trace = make_trace([Ask(float(second), blocks) for second, blocks in enumerate(prompts)])
    return simulate_cache(trace, config, make_costs(**costs))


# Every prompt pushes the one before it off the device, deepest block first; the third one comes back.
COMES_BACK = [[1, 2], [3, 4], [1, 2], [5]]


@pytest.mark.parametrize(
    ("store", "stored", "evicted_host"),
    [
        # All blocks are stored at once; the fifth has to push out 4, the oldest.
        (StoreMode.EAGER, [2, 2, 0, 1], [0, 0, 0, 1]),
        # What the device evicts is stored; 2 leaves it a second time, but the host kept its copy.
        (StoreMode.LAZY, [0, 2, 2, 0], [0, 0, 0, 0]),
        # The loaded copies left the host, so 2 is stored again.
        (StoreMode.EXCLUSIVE, [0, 2, 2, 1], [0, 0, 0, 0]),
    ],
)
def test_when_blocks_are_stored(store: StoreMode, stored: list[int], evicted_host: list[int]) -> None:
    """Eager stores what is computed, lazy what the device evicts and the host lacks, exclusive moves."""
    result = run(COMES_BACK, CacheConfig(2, 4, store_mode=store))
    assert result.device_hit.tolist() == [0, 0, 0, 0]
    assert result.host_hit.tolist() == [0, 0, 2, 0]
    assert result.evicted_device.tolist() == [0, 2, 2, 1]
    assert result.stored.tolist() == stored
    assert result.evicted_host.tolist() == evicted_host


def test_a_hit_counts_only_in_the_prefix_run() -> None:
    """A block behind a missing one is computed although a tier has it."""
    # After the second prompt the device holds 1 and 4; LRU evicted 3 and 2, deepest first.
    result = run([[1, 2, 3], [1, 4], [1, 2, 3]], CacheConfig(2, device_policy=PolicySpec("lru")))
    assert result.device_hit.tolist() == [0, 1, 1]
    # FIFO evicts 3 and 2 of the first prompt, then 1: the host has what follows the device's gap, so all is loaded.
    result = run([[1, 2], [1, 3], [1, 2]], CacheConfig(2, 8, device_policy=PolicySpec("fifo")))
    assert result.device_hit.tolist() == [0, 1, 1]
    assert result.host_hit.tolist() == [0, 0, 1]


def test_chunks_are_stored_and_evicted_whole() -> None:
    """Only full chunks are stored, counts are in blocks, and a chunk that the device has in part is loaded in part."""
    prompts = [[1, 2, 3], [7], [1, 2, 3], [1, 2, 3], [21, 22], [31, 32]]
    result = run(prompts, CacheConfig(1, 5, chunk_blocks=2))
    assert result.device_hit.tolist() == [0, 0, 0, 1, 0, 0]
    assert result.host_hit.tolist() == [0, 0, 2, 1, 0, 0]
    assert result.stored.tolist() == [2, 0, 0, 0, 2, 2]
    assert result.evicted_host.tolist() == [0, 0, 0, 0, 0, 2]  # 5 blocks hold 2 chunks
    assert result.totals().stored_bytes == 6 * 4


def test_short_runs_are_recomputed() -> None:
    """A run below the smallest load is computed although loading it would be quicker."""
    prompts = [[1, 2], [3], [1], [3], [1, 2]]
    # The device holds one block, so each prompt begins with nothing on it.
    assert run(prompts, CacheConfig(1, 8)).host_hit.tolist() == [0, 0, 1, 1, 2]
    assert run(prompts, CacheConfig(1, 8, min_load_blocks=2)).host_hit.tolist() == [0, 0, 0, 0, 2]


def test_loads_that_take_longer_are_recomputed() -> None:
    """With 5 s of latency one block (5.5 s) is computed in 4 s and two (6 s) are loaded instead of 8 s of prefill."""
    prompts = [[1, 2], [3], [1], [3], [1, 2]]
    assert run(prompts, CacheConfig(1, 8), load_latency_s=5.0).host_hit.tolist() == [0, 0, 0, 0, 2]
    unchecked = run(prompts, CacheConfig(1, 8, check_break_even=False), load_latency_s=5.0)
    assert unchecked.host_hit.tolist() == [0, 0, 1, 1, 2]
    assert unchecked.load_s().tolist() == [0.0, 0.0, 5.5, 5.5, 6.0]


def test_a_load_that_takes_as_long_is_recomputed() -> None:
    """Loading has to be quicker; 4 bytes at 1 byte per second take the 4 s of computing them."""
    assert run([[1], [2], [1]], CacheConfig(1, 8), load_bytes_per_s=1.0).host_hit.tolist() == [0, 0, 0]


def test_the_disk_takes_what_the_host_evicts() -> None:
    """A block that left device and host is read from disk and crosses both links."""
    result = run([[1], [2], [1]], CacheConfig(1, 1, 4), disk_bytes_per_s=4.0)
    assert result.stored_disk.tolist() == [0, 1, 1]
    assert result.disk_hit.tolist() == [0, 0, 1]
    assert result.load_s().tolist() == [0.0, 0.0, 1.5]  # 1 s from disk, 0.5 s on the host's link
    totals = result.totals()
    assert (totals.loaded_bytes, totals.stored_bytes, totals.disk_stored_bytes) == (4, 12, 8)


@pytest.mark.parametrize(("load_bytes_per_s", "hits"), [(8.0, 1), (8.0 / 3.0, 0)])
def test_the_disk_pays_only_with_the_link_counted(load_bytes_per_s: float, hits: int) -> None:
    """3 s from disk are quicker than 4 s of prefill, but not with another 1.5 s on the link."""
    costs = {"disk_bytes_per_s": 4.0 / 3.0, "load_bytes_per_s": load_bytes_per_s}
    result = run([[1], [2], [1]], CacheConfig(1, 1, 4), **costs)
    assert result.disk_hit.tolist() == [0, 0, hits]


@pytest.mark.parametrize(("admission", "stored", "evicted"), [(0.0, 2, 1), (1.0, 1, 0)])
def test_marginal_admission_does_not_count_what_leaves_at_once(admission: float, stored: int, evicted: int) -> None:
    """Of two blocks for a host of one, the deeper leaves in the round that brings it: then it was never stored."""
    spec = PolicySpec.of("rank", lambda_recency=0.5, tau_s=1.0, admission=admission)
    result = run([[1, 2]], CacheConfig(2, 1, host_policy=spec))
    assert (result.stored.tolist(), result.evicted_host.tolist()) == ([stored], [evicted])


def test_marginal_admission_counts_what_stayed_while_a_request_ran() -> None:
    """A block that came down when a request started and left when it finished was stored and evicted."""
    spec = PolicySpec.of("rank", lambda_recency=0.5, tau_s=1.0, admission=1.0)
    config = CacheConfig(1, 1, host_policy=spec, store_mode=StoreMode.LAZY, timing=Timing.SERVICE)
    # The second prompt is larger than the device: its start pushes 1 to the host, its end pushes 3, for which 1 goes.
    trace = make_trace([Ask(0.0, [1]), Ask(10.0, [2, 3])])
    result = simulate_cache(trace, config, make_costs())
    assert result.stored.tolist() == [0, 2]
    assert result.evicted_host.tolist() == [0, 1]
