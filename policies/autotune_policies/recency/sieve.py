"""SIEVE: a queue in order of arrival and a hand that spares what was used since it last passed."""

from __future__ import annotations

from collections.abc import Callable

from autotune.core.eviction import TierContext
from autotune_policies.queues import NOBODY, LinkedQueue
from autotune_policies.room_first import RoomFirstPolicy


class SievePolicy(RoomFirstPolicy):
    """The hand walks from old to new, clears the mark of used blocks and evicts the first unmarked one. O(1) amortised.

    Blocks never move, so the hand stays among the old ones while new ones prove themselves. A pinned block loses its
    mark like any other but stays.

    Source: Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024, algorithm 1.
    """

    name = "sieve"

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._queue = LinkedQueue()
        self._used: set[int] = set()
        self._hand = NOBODY

    def _queued_blocks(self) -> int:
        return len(self._queue)

    def _is_queued(self, block: object) -> bool:
        return block in self._queue

    def _use(self, block: int) -> None:
        self._used.add(block)

    def _join(self, block: int, origin: int) -> None:
        self._queue.push(block)

    def _make_room(self, origin: int, pinned: Callable[[int], bool]) -> int:
        block = self._hand
        for _ in range(2 * len(self._queue)):  # the first round clears every mark, so the second must find a victim
            if block == NOBODY:
                block = self._queue.oldest
            if block in self._used:
                self._used.remove(block)
            elif not pinned(block):
                self._hand = block
                self._drop(block)
                return block
            block = self._queue.newer(block)
        return NOBODY

    def _drop(self, block: int) -> None:
        if block == self._hand:
            self._hand = self._queue.newer(block)
        self._queue.remove(block)
        self._used.discard(block)
