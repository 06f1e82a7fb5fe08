"""A score set by hand that adds recency and hits, as the policy evoke-vllm does."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops
from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.ghosts import Ghosts, Usage
from autotune_policies.parameters import Interval, ParameterisedPolicy
from autotune_policies.queues import oldest_idle

# From so many hits on, 1 - 2^-hits is 1.0 in double precision, so those blocks are one class.
_MOST_HITS = 54


class EvokePolicy(ParameterisedPolicy):
    """Evicts the smallest ``λ · 2^(-age / half-life) + (1 - λ) · (1 - 2^-hits)``, the oldest among equals.

    The order of two blocks changes as they age, so no heap over keys is exact. Blocks with equally many hits keep the
    order of their last use, however; so they stand in one queue per number of hits, and the victim is the worst of the
    queues' old ends. O(1) per use and O(54) per eviction, with exactly the decisions of a scan over all residents.

    Age counts touches: one per request, as an engine reports a request's blocks in one call. Hits are uses after the
    first. The published score leaves open whether they outlast an eviction; that they do serves it better, so here a
    block that leaves keeps them as a ghost, and comes back with one more.

    Parameters: ``recency_weight`` λ; ``half_life_touches`` after which recency counts half; ``ghost_ratio`` ghosts kept
    per block of capacity, 0 to forget the hits of what leaves.

    Source: evoke-vllm's published score, ``.5 * 2^(-age / 64 touches) + .5 * (1 - 2^-hits)``.
    """

    name = "evoke"
    PARAMETERS: ClassVar[dict[str, float]] = {
        "recency_weight": 0.5,
        "half_life_touches": 64.0,
        "ghost_ratio": 8.0,
    }
    RANGES: ClassVar[dict[str, Interval]] = {
        "recency_weight": Interval(0.0, 1.0),
        "half_life_touches": Interval(0.0, open_low=True),
        "ghost_ratio": Interval(0.0, 1000.0),
    }

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._queues: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(_MOST_HITS + 1)]
        self._hits: dict[int, int] = {}
        self._ghosts = Ghosts(math.ceil(self._params["ghost_ratio"] * context.capacity_blocks))
        self._touches = 0
        self._request = -1

    def __len__(self) -> int:
        return len(self._hits)

    def __contains__(self, block: object) -> bool:
        return block in self._hits

    def touch(self, access: BlockAccess) -> None:
        self._place(access, self._leave(access.block) + 1)

    def renew(self, access: BlockAccess) -> None:
        self._place(access, self._leave(access.block))

    def insert(self, access: BlockAccess) -> None:
        known = self._ghosts.take(access.block)
        self._place(access, 0 if known is None else int(known.frequency) + 1)

    def demote(self, access: BlockAccess) -> None:
        known = self._ghosts.take(access.block)
        self._place(access, 0 if known is None else int(known.frequency))

    def refuse(self, access: BlockAccess) -> None:
        known = self._ghosts.take(access.block)
        self._ghosts.put(access.block, Usage(0.0 if known is None else known.frequency + 1.0, access.time_ns))

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        worst, victim = (float("inf"), 0), -1
        for hits, queue in enumerate(self._queues):
            block = oldest_idle(queue, pinned) if queue else -1
            if block >= 0 and (rank := (self._score(hits, queue[block]), queue[block])) < worst:
                worst, victim = rank, block
        if victim >= 0:
            self.remove(victim)
        return victim

    def remove(self, block: int) -> None:
        self._ghosts.put(block, Usage(float(self._leave(block)), 0))

    def _score(self, hits: int, last_touch: int) -> float:
        weight, half_life = self._params["recency_weight"], self._params["half_life_touches"]
        recency = exp2_exactly_rounded_ops(-(self._touches - last_touch) / half_life)
        return weight * recency + (1.0 - weight) * (1.0 - exp2_exactly_rounded_ops(float(-hits)))

    def _place(self, access: BlockAccess, hits: int) -> None:
        if access.request != self._request:
            self._request = access.request
            self._touches += 1
        self._hits[access.block] = hits = min(hits, _MOST_HITS)
        self._queues[hits][access.block] = self._touches

    def _leave(self, block: int) -> int:
        hits = self._hits.pop(block)
        del self._queues[hits][block]
        return hits
