from __future__ import annotations

import numpy as np
from hypothesis import given

from autotune.core.decide.keys import NEVER
from autotune.core.state import DEPTH, N_NODE_COLUMNS, PARENT, SLOT
from autotune.core.trace import Trace, chain_parents
from autotune.sim import scan
from autotune.sim.stream import block_depths
from autotune.testing.streams import traces


@given(trace=traces())
def test_places_equal_the_plain_forms(trace: Trace) -> None:
    """Parents and depths found in one pass are those that the plain functions find, slices of a trace included."""
    for part in (trace, trace.slice(trace.n_requests // 2, trace.n_requests)):
        nodes = np.zeros((part.n_blocks, N_NODE_COLUMNS), np.int32)
        scan.place_blocks(part, nodes)
        named = np.unique(part.block_ids)
        np.testing.assert_array_equal(nodes[named, PARENT], chain_parents(part)[named])
        np.testing.assert_array_equal(nodes[named, DEPTH], block_depths(part)[named])
        assert np.all(nodes[named, SLOT] == -1)
        assert not nodes[np.setdiff1d(np.arange(part.n_blocks), named)].any()


@given(trace=traces())
def test_next_uses_are_the_next_requests_with_that_block(trace: Trace) -> None:
    """Each access knows the next request that names its block, or that there is none."""
    touched_by = [set(trace.blocks_of(r).tolist()) for r in range(trace.n_requests)]
    expected = [
        next((later for later in range(r + 1, trace.n_requests) if block in touched_by[later]), NEVER)
        for r in range(trace.n_requests)
        for block in trace.blocks_of(r).tolist()
    ]
    assert scan.next_uses(trace).tolist() == expected
