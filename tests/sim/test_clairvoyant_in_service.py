"""What the clairvoyant policies know where requests finish in another order than they began."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache, simulate_plainly
from autotune.sim.result import CacheResult
from autotune.testing.streams import Ask, make_costs, make_trace

Simulate = Callable[[Trace, CacheConfig, CostProfile], CacheResult]
LONG_TOKENS, SHORT_TOKENS = 100_000, 0


@pytest.mark.parametrize("simulate", [simulate_cache, simulate_plainly])
@pytest.mark.parametrize("policy", ["clairvoyant", "clairvoyant_seconds"])
def test_a_use_that_has_been_is_no_reason_to_stay(simulate: Simulate, policy: str) -> None:
    """A block whose last use began late and finished early leaves before one that is asked for again.

    Request 0 decodes for long and sees the next use of block 1 in request 1, which is over by the time it finishes.
    """
    trace = make_trace(
        [
            Ask(0.0, [1], output_tokens=LONG_TOKENS),
            Ask(10.0, [1], output_tokens=SHORT_TOKENS),
            Ask(2000.0, [2], output_tokens=SHORT_TOKENS),
            Ask(2100.0, [3], output_tokens=SHORT_TOKENS),
            Ask(2200.0, [2], output_tokens=SHORT_TOKENS),
        ]
    )
    config = CacheConfig(2, device_policy=PolicySpec(policy), timing=Timing.SERVICE)
    cache = simulate(trace, config, make_costs())
    assert cache.device_hit.tolist() == [0, 1, 0, 0, 1]
