"""Least recently used: what inference engines do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.parameters import ParameterisedPolicy
from autotune_policies.queues import oldest_idle


class LRUPolicy(ParameterisedPolicy):
    """Evicts the block whose last use is longest ago. O(1)."""

    name = "lru"

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._queue: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, block: object) -> bool:
        return block in self._queue

    def touch(self, access: BlockAccess) -> None:
        self._queue.move_to_end(access.block)

    def renew(self, access: BlockAccess) -> None:
        self._queue.move_to_end(access.block)

    def insert(self, access: BlockAccess) -> None:
        self._queue[access.block] = None

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        victim = oldest_idle(self._queue, pinned)
        if victim >= 0:
            del self._queue[victim]
        return victim

    def remove(self, block: int) -> None:
        del self._queue[block]
