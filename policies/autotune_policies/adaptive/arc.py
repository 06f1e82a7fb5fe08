"""ARC: recency and frequency in two lists whose split follows the ghosts that come back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.queues import NOBODY, oldest_idle
from autotune_policies.room_first import NEW, RoomFirstPolicy

FROM_ONCE_GHOSTS, FROM_OFTEN_GHOSTS = 1, 2


class ARCPolicy(RoomFirstPolicy):
    """Adaptive replacement cache. O(1).

    The paper's names: ``_once`` T1, ``_often`` T2, ``_once_ghosts`` B1, ``_often_ghosts`` B2, ``_target_blocks`` p.
    As in libCacheSim, which this agrees with, p is a real number. Where the list that should give a block holds pinned
    ones only, the other gives it. A block that is removed leaves no ghost.

    Source: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, figure 4.
    """

    name = "arc"

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._once: OrderedDict[int, None] = OrderedDict()
        self._often: OrderedDict[int, None] = OrderedDict()
        self._once_ghosts: OrderedDict[int, None] = OrderedDict()
        self._often_ghosts: OrderedDict[int, None] = OrderedDict()
        self._target_blocks = 0.0

    def renew(self, access: BlockAccess) -> None:
        for queue in (self._once, self._often):
            if access.block in queue:
                queue.move_to_end(access.block)

    def _queued_blocks(self) -> int:
        return len(self._once) + len(self._often)

    def _is_queued(self, block: object) -> bool:
        return block in self._once or block in self._often

    def _use(self, block: int) -> None:
        if block in self._once:
            del self._once[block]
            self._often[block] = None
        else:
            self._often.move_to_end(block)

    def _recall(self, block: int) -> int:
        n_once, n_often = len(self._once_ghosts), len(self._often_ghosts)
        if block in self._once_ghosts:
            grown = self._target_blocks + max(n_often / n_once, 1.0)
            self._target_blocks = min(grown, float(self.context.capacity_blocks))
            del self._once_ghosts[block]
            return FROM_ONCE_GHOSTS
        if block in self._often_ghosts:
            self._target_blocks = max(self._target_blocks - max(n_once / n_often, 1.0), 0.0)
            del self._often_ghosts[block]
            return FROM_OFTEN_GHOSTS
        return NEW

    def _join(self, block: int, origin: int) -> None:
        (self._once if origin == NEW else self._often)[block] = None

    def _make_room(self, origin: int, pinned: Callable[[int], bool]) -> int:
        if origin != NEW:
            return self._replace(origin, pinned)
        capacity_blocks = self.context.capacity_blocks
        if len(self._once) + len(self._once_ghosts) >= capacity_blocks:
            if not self._once_ghosts:
                return self._evict_without_ghost(pinned)
            while self._once_ghosts and len(self._once) + len(self._once_ghosts) >= capacity_blocks:
                self._once_ghosts.popitem(last=False)
        else:
            while self._often_ghosts and self._known_blocks() >= 2 * capacity_blocks:
                self._often_ghosts.popitem(last=False)
        return self._replace(NEW, pinned)

    def _known_blocks(self) -> int:
        return len(self._once) + len(self._once_ghosts) + len(self._often) + len(self._often_ghosts)

    def _replace(self, origin: int, pinned: Callable[[int], bool]) -> int:
        """The paper's REPLACE."""
        n_once = len(self._once)
        over_target = n_once > self._target_blocks or (n_once == self._target_blocks and origin == FROM_OFTEN_GHOSTS)
        if (n_once > 0 and over_target) or not self._often:
            order = ((self._once, self._once_ghosts), (self._often, self._often_ghosts))
        else:
            order = ((self._often, self._often_ghosts), (self._once, self._once_ghosts))
        for queue, ghosts in order:
            victim = oldest_idle(queue, pinned)
            if victim >= 0:
                del queue[victim]
                ghosts[victim] = None
                return victim
        return NOBODY

    def _evict_without_ghost(self, pinned: Callable[[int], bool]) -> int:
        """T1 alone fills the cache: its oldest block goes and is not remembered."""
        victim = oldest_idle(self._once, pinned)
        if victim < 0:
            return self._replace(NEW, pinned)
        del self._once[victim]
        return victim

    def _drop(self, block: int) -> None:
        queue = self._once if block in self._once else self._often
        del queue[block]
