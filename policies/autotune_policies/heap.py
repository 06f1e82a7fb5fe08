"""Exact priority queue of eviction candidates with keys that change."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from autotune.core.eviction import nothing_pinned

_SLACK = 64


class VictimHeap:
    """Blocks by ``(key, sequence)``, smallest first.

    A changed key is pushed as a new entry; the old one is recognised as stale when it surfaces. The heap is rebuilt as
    soon as more than half of it (and 64 entries) is stale, so every operation is O(log n) amortised and memory stays
    below twice the number of candidates plus 64.
    """

    def __init__(self) -> None:
        self._live: dict[int, tuple[int, int, int]] = {}
        self._entries: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._live)

    def set(self, block: int, key: int, sequence: int) -> None:
        """Make a block a candidate with this key, or change its key."""
        entry = (key, sequence, block)
        self._live[block] = entry
        heapq.heappush(self._entries, entry)
        self._drop_stale()

    def discard(self, block: int) -> None:
        """Make a block no candidate, if it is one."""
        if self._live.pop(block, None) is not None:
            self._drop_stale()

    def smallest(self, pinned: Callable[[int], bool] = nothing_pinned, other_than: int = -1) -> int:
        """The candidate with the smallest ``(key, sequence)`` that is not pinned; -1 if there is none."""
        passed_over: list[tuple[int, int, int]] = []
        found = -1
        while self._entries:
            entry = self._entries[0]
            block = entry[2]
            if self._live.get(block) is not entry:
                heapq.heappop(self._entries)
            elif block == other_than or pinned(block):
                passed_over.append(heapq.heappop(self._entries))
            else:
                found = block
                break
        for entry in passed_over:
            heapq.heappush(self._entries, entry)
        return found

    def _drop_stale(self) -> None:
        if len(self._entries) > 2 * len(self._live) + _SLACK:
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)
