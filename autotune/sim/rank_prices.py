"""What room is worth where a learned rule is in force: the rank of the block that would leave next, again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.decide.hazard import KEY_SCALE
from autotune.core.policy import WriteBudget
from autotune.core.state import CHILDREN, HEAP_BLOCK, HEAP_SIZE, KEY, PINS, TierState
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.core.units import NS_PER_S
from autotune.sim.columns import EVICTED_DEVICE, EVICTED_HOST
from autotune.sim.config import CacheConfig
from autotune.sim.learned import HazardRules, Hints
from autotune.sim.learned_loop import Side
from autotune.sim.obeying import obeying_cache

MOMENTS = 64
_EVICTED = {Tier.DEVICE: EVICTED_DEVICE, Tier.HOST: EVICTED_HOST}


@dataclass(frozen=True, slots=True)
class MarginalRanks:
    """Median rank of the next to leave, in seconds saved per block-second.

    Attributes:
        device_s_per_block_s: On the device; 0 = nothing left it, ``None`` = the rule does not govern it.
        host_s_per_block_s: The same on the host.
        moments: At how many moments it was looked up.
        measured: First and one past the last request between which that was.
    """

    device_s_per_block_s: float | None
    host_s_per_block_s: float | None
    moments: int
    measured: tuple[int, int]


def marginal_ranks(
    trace: Trace,
    engine: CacheConfig,
    costs: CostProfile,
    rules: HazardRules,
    governed: tuple[Tier, ...],
    hints: Hints | None = None,
    write: WriteBudget | None = None,
) -> MarginalRanks:
    """Run a trace through tiers that obey a rule, and look now and then, in its later half, who would leave next.

    Args:
        trace: The requests, at least one.
        engine: Capacities, store mode and timing.
        costs: The cost model.
        rules: The rule, in force from the first request on.
        governed: Tiers that it governs and that exist.
        hints: What clients told; ``None`` = what the trace says of it.
        write: What may be stored to the host; ``None`` = as much as comes.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        SimulationError: the engine stores chunks of several blocks.
    """
    cache = obeying_cache(trace, engine, costs, rules, governed, hints, write)
    start, stop = trace.n_requests // 2, trace.n_requests
    cache.run(start)
    ranks: dict[Tier, list[float]] = {tier: [] for tier in governed}
    stops = sorted({start + -(-(stop - start) * k // MOMENTS) for k in range(1, MOMENTS + 1)})
    for moment in stops:
        cache.run(moment)
        for tier, found in ranks.items():
            found.append(next_to_leave(_state(cache.live, tier)))
    price = {tier: _price(cache.live, tier, start, found) for tier, found in ranks.items()}
    return MarginalRanks(price.get(Tier.DEVICE), price.get(Tier.HOST), len(stops), (start, stop))


def next_to_leave(state: TierState) -> float:
    """Rank of the evictable block with the smallest one, in seconds per block-second; 0 where none may leave.

    Args:
        state: A tier of the learned rule, which is not changed.
    """
    blocks = state.heap[: state.ints[HEAP_SIZE], HEAP_BLOCK]
    free = blocks[(state.nodes[blocks, PINS] == 0) & (state.nodes[blocks, CHILDREN] == 0)]
    return float(state.keys[free, KEY].min()) / (KEY_SCALE * NS_PER_S) if len(free) else 0.0


def _price(side: Side, tier: Tier, start: int, ranks: list[float]) -> float:
    evicted = int(side.out[start:, _EVICTED[tier]].sum(dtype=np.int64))
    return float(np.median(ranks)) if evicted else 0.0


def _state(side: Side, tier: Tier) -> TierState:
    return side.device if tier is Tier.DEVICE else side.host
