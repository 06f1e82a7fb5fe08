"""From one order to another without holding up the engine: new rules, or the ranks of the next tick."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules

BringUp = Callable[[Resident], None]


class RuleSwap:
    """The order under new rules, prepared beside the old one in slices so that no scheduler step is held up.

    Residents that change while it goes on are ranked once more before it ends.

    Args:
        residents: The residents, live.
        rules: New rules.
        ranks: Their arithmetic.
        bring_up: Makes a resident take over what an earlier order has in store for it; no resident has two in store.
    """

    is_tick = False

    def __init__(self, residents: dict[Key, Resident], rules: HostRules, ranks: Any, bring_up: BringUp) -> None:
        self.rules = rules
        self.ranks = ranks
        self.heap: list[Entry] = []
        self._residents = residents
        self._bring_up = bring_up
        self._waiting: list[Any] = self._everybody()
        self._changed: dict[Key, Resident] = {}

    def _everybody(self) -> list[Any]:
        # A dictionary's own list of keys is 10 times faster than that of one that keeps an order.
        return list(dict.keys(self._residents)) if self.rules.leaf_only else []

    @property
    def left(self) -> int:
        """Residents that have to be ranked yet."""
        return len(self._waiting) + len(self._changed)

    def changed(self, key: Key, resident: Resident) -> None:
        """Something about a resident changed: what was prepared for it is void."""
        if self.rules.leaf_only:
            resident.next_entry = None
            self._changed[key] = resident

    def advance(self, n: int) -> int:
        """Rank up to ``n`` residents; returns how many are left.

        At the end at least half of what changed meanwhile is done in one go, so that it ends whatever the load.
        """
        waiting = self._waiting
        if waiting:
            for _ in range(min(n, len(waiting))):
                self._prepare_waiting(waiting.pop())
        else:
            for _ in range(min(len(self._changed), max(n, len(self._changed) // 2))):
                self._prepare(self._changed.popitem()[0])
        return self.left

    def _prepare_waiting(self, waiting: Any) -> None:
        self._prepare(waiting)

    def _prepare(self, key: Key) -> None:
        resident = self._residents.get(key)
        if resident is None:
            return
        self._bring_up(resident)
        resident.next_entry = None
        if resident.evictable and not resident.children:
            resident.next_entry = entry = (self.ranks.of(resident), resident.sequence, key)
            heappush(self.heap, entry)


class TickSwap(RuleSwap):
    """The order of the next tick under the same rules: only those that may leave have a place in it.

    Args:
        residents: The residents, live.
        rules: The rules.
        ranks: Ranks of that tick.
        bring_up: As for :class:`RuleSwap`.
        heap: The present order, whose entries are all residents that may leave, and more.
    """

    is_tick = True

    def __init__(
        self, residents: dict[Key, Resident], rules: HostRules, ranks: Any, bring_up: BringUp, heap: list[Entry]
    ) -> None:
        self._present = heap
        super().__init__(residents, rules, ranks, bring_up)

    def _everybody(self) -> list[Any]:
        return self._present.copy()

    def _prepare_waiting(self, waiting: Any) -> None:
        """A resident may have had several entries in the present order; it is ranked once."""
        resident = self._residents.get(waiting[2])
        if resident is not None:
            self._bring_up(resident)
            if resident.next_entry is None:
                self._prepare(waiting[2])
