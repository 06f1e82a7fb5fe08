"""What room is worth where a learned rule is in force: where the block stands that would leave next, time and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.decide.hazard import KEY_SCALE
from autotune.core.policy import WriteBudget
from autotune.core.policy.rank_prices import ROOM_S
from autotune.core.state import CHILDREN, HEAP_BLOCK, HEAP_SIZE, KEY, NOW_NS, PINS, TierState
from autotune.core.trace import Trace
from autotune.core.types import RankForm, Tier
from autotune.core.units import NS_PER_S
from autotune.sim.columns import EVICTED_DEVICE, EVICTED_HOST
from autotune.sim.config import CacheConfig
from autotune.sim.learned_loop import Side
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.obeying import obeying_cache

MOMENTS = 64
NO_PRICE = {RankForm.HAZARD: 0.0, RankForm.FIXED_KEY: ROOM_S}
_EVICTED = {Tier.DEVICE: EVICTED_DEVICE, Tier.HOST: EVICTED_HOST}


@dataclass(frozen=True, slots=True)
class MarginalRanks:
    """Median of where the next to leave stands, in the unit of the rule's form; see :func:`next_to_leave`.

    Attributes:
        device: On the device; as in ``NO_PRICE`` where nothing left it, ``None`` = the rule does not govern it.
        host: The same on the host.
        moments: At how many moments it was looked up.
        measured: First and one past the last request between which that was.
    """

    device: float | None
    host: float | None
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
            found.append(next_to_leave(_state(cache.live, tier), rules.form))
    price = {
        tier: float(np.median(found)) if _any_left(cache.live, tier, start) else NO_PRICE[rules.form]
        for tier, found in ranks.items()
    }
    return MarginalRanks(price.get(Tier.DEVICE), price.get(Tier.HOST), len(stops), (start, stop))


def next_to_leave(state: TierState, form: RankForm) -> float:
    """Where the evictable block with the smallest rank stands; as in ``NO_PRICE`` where none may leave.

    Args:
        state: A tier of the learned rule, which is not changed.
        form: Of that rule: the rank is in seconds saved per block-second, or the key in seconds from now.
    """
    blocks = state.heap[: state.ints[HEAP_SIZE], HEAP_BLOCK]
    free = blocks[(state.nodes[blocks, PINS] == 0) & (state.nodes[blocks, CHILDREN] == 0)]
    if not len(free):
        return NO_PRICE[form]
    key = int(state.keys[free, KEY].min())
    if form is RankForm.HAZARD:
        return key / (KEY_SCALE * NS_PER_S)
    from_now_s = (key - int(state.ints[NOW_NS])) / NS_PER_S
    return min(max(from_now_s, ROOM_S), -ROOM_S)  # copies that leave first have a far earlier key


def _any_left(side: Side, tier: Tier, start: int) -> bool:
    return bool(side.out[start:, _EVICTED[tier]].any())


def _state(side: Side, tier: Tier) -> TierState:
    return side.device if tier is Tier.DEVICE else side.host
