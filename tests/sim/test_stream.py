"""Columns that the simulator derives from a trace."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from autotune.core.decide.keys import NEVER
from autotune.core.trace import Trace, chain_parents
from autotune.core.types import Tier
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.scan import next_uses
from autotune.sim.stream import block_depths, chunk_parents, make_stream, without_partial_blocks
from autotune.sim.tiers import tier_context
from autotune.testing.streams import Ask, make_costs, make_trace, traces

TRACE = make_trace([Ask(0.0, [1, 2, 3]), Ask(1.0, [1, 4]), Ask(2.0, [1, 2, 3])])


def test_next_use_is_a_request() -> None:
    """Each access knows the next request that touches its block."""
    assert next_uses(TRACE).tolist() == [1, 2, 2, 2, NEVER, NEVER, NEVER, NEVER]


def test_depths_and_parents() -> None:
    """Blocks 1, 2, 3, 4 lie at depths 0, 1, 2, 1; two blocks up the chain is nothing but for 3."""
    assert block_depths(TRACE).tolist() == [0, 1, 2, 1]
    assert chain_parents(TRACE).tolist() == [-1, 0, 1, 0]
    assert chunk_parents(chain_parents(TRACE), 2).tolist() == [-1, -1, 0, -1]


def test_partial_blocks_are_dropped() -> None:
    """Eleven tokens fill two blocks of four; a trace of full blocks stays the same object."""
    trace = make_trace([Ask(0.0, [1, 2, 3], input_tokens=11), Ask(1.0, [1, 2, 3])])
    full = without_partial_blocks(trace)
    assert np.diff(full.block_offsets).tolist() == [2, 3]
    assert full.block_ids.tolist() == [0, 1, 0, 1, 2]
    assert without_partial_blocks(full) is full


def test_engines_recompute_at_least_one_token() -> None:
    """With full blocks only, a prompt that ends with a block computes that block again, whatever is resident."""
    trace = make_trace([Ask(0.0, [1, 2]), Ask(1.0, [1, 2]), Ask(2.0, [1, 2, 3], input_tokens=9)])
    result = simulate_cache(trace, CacheConfig(8, full_blocks=True), make_costs())
    assert result.device_hit.tolist() == [0, 1, 2]
    assert result.hit_tokens().tolist() == [0, 4, 8]


def test_a_prompt_of_nothing_finds_nothing() -> None:
    """A prompt without tokens is no division by zero and no negative hit."""
    trace = make_trace([Ask(0.0, []), Ask(1.0, [1]), Ask(2.0, [])])
    for full_blocks in (False, True):
        result = simulate_cache(trace, CacheConfig(1, 2, 3, full_blocks=full_blocks), make_costs())
        assert result.totals().accesses == 1
        assert result.hit_blocks().tolist() == [0, 0, 0]


def test_value_of_a_block_by_tier() -> None:
    """On the device a hit saves its prefill, deeper blocks more; on the host the load is taken off, never below 0."""
    costs = make_costs(prefill_linear_s=0.0, prefill_quadratic_s=0.1, load_bytes_per_s=2.0)
    device, host = (tier_context(5, tier, TRACE, costs).value_s for tier in (Tier.DEVICE, Tier.HOST))
    assert np.allclose(device[:3], [1.0, 2.6, 4.2])  # 0.1 * (1 + 2 + 3 + 4), then 5 to 8, then 9 to 12
    assert np.allclose(host[:3], [0.0, 0.6, 2.2])  # 2 s per load of 4 bytes


@given(trace=traces())
def test_stream_has_one_entry_each(trace: Trace) -> None:
    """Columns fit the trace, and no prompt can hit more than it has."""
    stream = make_stream(trace, CacheConfig(1, full_blocks=True))
    assert len(stream.arrival_ns) == len(stream.max_hit) == len(stream.decode_ns) == trace.n_requests
    assert np.all(stream.max_hit <= np.diff(stream.offsets))
    assert np.all(stream.max_hit * trace.block_tokens < np.maximum(trace.input_tokens, 1))
