"""One LRU over device and host: what an engine under a learned policy does before anything is learned.

With eager stores that is LRU on each tier. With lazy or exclusive stores what only the host holds leaves in the order
in which the device gave it up, which is the order of its last use, and copies of what the device holds too leave before
that, so that both tiers together hold what was used last. Under instant timing that includes all that LRU with eager
stores holds. Under a write budget copies are worth a write, and the host is LRU by itself.
:mod:`~autotune.sim.joint_reference` says it in plain Python.
"""

from __future__ import annotations

from autotune.core.costs import CostProfile
from autotune.core.policy import WriteBudget
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.result import CacheResult


def simulate_joint_lru(
    trace: Trace,
    engine: CacheConfig,
    costs: CostProfile,
    *,
    write: WriteBudget | None = None,
) -> CacheResult:
    """Run every request of the trace, starting empty.

    Args:
        trace: The requests.
        engine: Capacities, store mode and timing; its policies of device and host are not looked at.
        costs: The cost model.
        write: What may be stored to the host; ``None`` = as much as comes.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        SimulationError: the engine stores chunks of several blocks.
    """
    cache = LearnedCache(trace, engine, costs, shadows=False, write=write)
    cache.run(cache.trace.n_requests)
    return cache.result()
