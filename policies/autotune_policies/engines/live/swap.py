"""From one set of rules to another without holding up the engine."""

from __future__ import annotations

from heapq import heappush

from autotune_policies.engines.live.ranks import Ranks
from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules


class RuleSwap:
    """The order under new rules, prepared beside the old one in slices so that no scheduler step is held up.

    Residents that change while it goes on are ranked once more before it ends.

    Args:
        residents: The residents, live.
        rules: New rules.
        ranks: Their arithmetic.
    """

    def __init__(self, residents: dict[Key, Resident], rules: HostRules, ranks: Ranks) -> None:
        self.rules = rules
        self.ranks = ranks
        self.heap: list[Entry] = []
        self._residents = residents
        self._waiting = (
            list(dict.keys(residents)) if rules.leaf_only else []
        )  # without its order that is 10 times faster
        self._changed: dict[Key, Resident] = {}

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
                self._prepare(waiting.pop())
        else:
            for _ in range(min(len(self._changed), max(n, len(self._changed) // 2))):
                self._prepare(self._changed.popitem()[0])
        return len(waiting) + len(self._changed)

    def _prepare(self, key: Key) -> None:
        resident = self._residents.get(key)
        if resident is None:
            return
        resident.next_entry = None
        if resident.evictable and not resident.children:
            rank = self.ranks.rank_ns(resident.last_ns, resident.frequency, resident.depth)
            resident.next_entry = entry = (rank, resident.sequence, key)
            heappush(self.heap, entry)
