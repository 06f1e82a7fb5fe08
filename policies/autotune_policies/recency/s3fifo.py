"""S3-FIFO: a small queue on probation, a main queue with second chances, and ghosts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from autotune.core.eviction import TierContext
from autotune_policies.parameters import Interval
from autotune_policies.queues import NOBODY
from autotune_policies.room_first import NEW, RoomFirstPolicy

FROM_GHOST = 1
_MOST_LIVES = 3


class S3FIFOPolicy(RoomFirstPolicy):
    """New blocks pass through a small FIFO; those used there, or remembered, go to the main FIFO. O(1) amortised.

    As in libCacheSim 0.3.5, which this agrees with: until the first eviction the main queue takes what the small one
    has no room for; a block that is promoted starts in the main queue without credit; ghosts are the last
    ``ghost_frac * capacity`` victims of the small queue. Where its small queue would hold no or one block, libCacheSim
    refuses to cache at all; here it then holds one.

    Parameters: ``small_frac`` share of the small queue; ``ghost_frac`` ghosts per block of capacity;
    ``promote_uses`` uses in the small queue that earn a place in the main one.

    Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.
    """

    name = "s3fifo"
    PARAMETERS: ClassVar[dict[str, float]] = {"small_frac": 0.1, "ghost_frac": 0.9, "promote_uses": 2.0}
    RANGES: ClassVar[dict[str, Interval]] = {
        "small_frac": Interval(0.0, 0.9, open_low=True),
        "ghost_frac": Interval(0.0, 10.0),
        "promote_uses": Interval(1, 15, whole=True),
    }

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        capacity_blocks = context.capacity_blocks
        self._small_blocks = max(1, int(capacity_blocks * self._params["small_frac"]))
        self._main_blocks = capacity_blocks - self._small_blocks
        self._ghost_blocks = int(capacity_blocks * self._params["ghost_frac"])
        self._promote_uses = int(self._params["promote_uses"])
        self._small: OrderedDict[int, int] = OrderedDict()  # block → uses since it came
        self._main: OrderedDict[int, int] = OrderedDict()  # block → uses since the queue last turned it over
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self._has_evicted = False

    def _queued_blocks(self) -> int:
        return len(self._small) + len(self._main)

    def _is_queued(self, block: object) -> bool:
        return block in self._small or block in self._main

    def _use(self, block: int) -> None:
        queue = self._small if block in self._small else self._main
        queue[block] += 1

    def _recall(self, block: int) -> int:
        if block not in self._ghosts:
            return NEW
        del self._ghosts[block]
        return FROM_GHOST

    def _join(self, block: int, origin: int) -> None:
        small_is_full = len(self._small) >= self._small_blocks
        to_main = origin == FROM_GHOST or (small_is_full and not self._has_evicted)
        (self._main if to_main else self._small)[block] = 0

    def _make_room(self, origin: int, pinned: Callable[[int], bool]) -> int:
        self._has_evicted = True
        victim = NOBODY
        if len(self._main) <= self._main_blocks:
            victim = self._evict_small(pinned)
        # Either queue may hold pinned blocks only, and the small one may just have promoted all that it held.
        if victim < 0:
            victim = self._evict_main(pinned)
        if victim < 0:
            victim = self._evict_small(pinned)
        return victim if victim >= 0 else self._evict_main(pinned)

    def _evict_small(self, pinned: Callable[[int], bool]) -> int:
        promoted: list[int] = []
        victim = NOBODY
        for block, uses in self._small.items():
            if uses >= self._promote_uses:
                promoted.append(block)
            elif not pinned(block):
                victim = block
                break
        for block in promoted:
            del self._small[block]
            self._main[block] = 0
        if victim >= 0:
            del self._small[victim]
            self._remember(victim)
        return victim

    def _evict_main(self, pinned: Callable[[int], bool]) -> int:
        while self._main:
            spared: list[int] = []
            for block, uses in self._main.items():
                if uses > 0:
                    spared.append(block)
                elif not pinned(block):
                    self._spare(spared)
                    del self._main[block]
                    return block
            if not spared:
                break
            self._spare(spared)
        return NOBODY

    def _spare(self, blocks: list[int]) -> None:
        for block in blocks:
            self._main[block] = min(self._main[block], _MOST_LIVES) - 1
            self._main.move_to_end(block)

    def _remember(self, block: int) -> None:
        if self._ghost_blocks == 0:
            return
        if len(self._ghosts) >= self._ghost_blocks:
            self._ghosts.popitem(last=False)
        self._ghosts[block] = None

    def _drop(self, block: int) -> None:
        queue = self._small if block in self._small else self._main
        del queue[block]
