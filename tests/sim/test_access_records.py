"""Access records of a simulation."""

from __future__ import annotations

import pytest

from autotune.api import cost_profile
from autotune.core.access import AccessRecord
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.records import access_records
from autotune.sim.result import CacheResult


@pytest.fixture(scope="module")
def result() -> CacheResult:
    """Three tiers under a cut of the synthetic trace, small enough that every fate occurs."""
    trace = Trace.open("sample:synthetic").slice(0, 400)
    config = CacheConfig(200, 800, 2000, store_mode=StoreMode.LAZY)
    return simulate_cache(trace, config, cost_profile()[1])


@pytest.fixture(scope="module")
def records(result: CacheResult) -> list[AccessRecord]:
    """All its records."""
    return list(access_records(result))


def test_records_cover_every_access_once_in_prefix_order(result: CacheResult, records: list[AccessRecord]) -> None:
    """The runs of each request, put together, are its blocks."""
    seen: dict[int, list[int]] = {}
    for record in records:
        assert record.first_depth_blocks == len(seen.setdefault(record.request, []))
        seen[record.request].extend(record.block_ids)
    assert all(seen[r] == result.trace.blocks_of(r).tolist() for r in range(result.trace.n_requests))


@pytest.mark.parametrize("tier", [Tier.DEVICE, Tier.HOST, Tier.DISK, None])
def test_records_sum_up_to_the_totals(result: CacheResult, records: list[AccessRecord], tier: Tier | None) -> None:
    """Blocks per fate are those of the totals, and every fate occurs."""
    totals = result.totals()
    expected = {
        Tier.DEVICE: totals.device_hit_blocks,
        Tier.HOST: totals.host_hit_blocks,
        Tier.DISK: totals.disk_hit_blocks,
        None: totals.computed_blocks,
    }
    found = sum(len(record.block_ids) for record in records if record.tier is tier)
    assert found == expected[tier] > 0


def test_seconds_and_tokens_add_up(result: CacheResult, records: list[AccessRecord]) -> None:
    """Computed seconds, load seconds and tokens are those of the totals."""
    totals = result.totals()
    computed_s = sum(record.seconds for record in records if record.tier is None)
    assert computed_s == pytest.approx(totals.recompute_s, rel=1e-9)
    load_s = sum(record.seconds for record in records if record.tier in (Tier.HOST, Tier.DISK))
    assert load_s == pytest.approx(totals.load_s, rel=1e-9)
    assert sum(record.tokens for record in records) == totals.prompt_tokens
    assert all(record.moved_bytes == 0 for record in records if record.tier in (None, Tier.DEVICE))
    loaded = sum(record.moved_bytes for record in records if record.tier in (Tier.HOST, Tier.DISK))
    assert loaded == totals.loaded_bytes


def test_eager_stores_belong_to_the_request_that_computed(result: CacheResult) -> None:
    """Where blocks are stored when they are computed, the computed runs carry the stored bytes."""
    eager = simulate_cache(result.trace, CacheConfig(200, 800), result.costs)
    stored = sum(record.moved_bytes for record in access_records(eager) if record.tier is None)
    assert 0 < stored <= eager.totals().stored_bytes


def test_features_never_look_ahead(records: list[AccessRecord]) -> None:
    """A block's count grows by one with each record that starts with it, and its first access has no gap."""
    starts: dict[int, float] = {}
    for record in records:
        frequency = record.features.frequency
        assert frequency is not None
        block = record.block_ids[0]
        assert (record.features.gap_s is None) == (frequency == 1.0)
        assert frequency > starts.get(block, 0.0)
        starts[block] = frequency


def test_what_a_trace_does_not_say_stays_unknown(records: list[AccessRecord]) -> None:
    """Sessions and stop reasons are not in this trace, so turn and reason are unknown, not zero."""
    assert all(record.features.turn is None and record.features.stop_reason is None for record in records)
