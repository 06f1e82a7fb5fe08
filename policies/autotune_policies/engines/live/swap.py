"""From one order to another without holding up the engine: new rules, or the ranks of the next tick."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.slots import Slots

_SHARE_AT_ONCE = 64

BringUp = Callable[[Resident], None]


class OrderSwap:
    """Another order, prepared beside the present one in slices so that no scheduler step is held up.

    Residents that change while it goes on are ranked once more before it ends.

    Args:
        residents: The residents, live.
        slots: All of them in a list, live.
        rules: The rules of that order.
        ranks: Their arithmetic.
        bring_up: Makes a resident take over what an earlier order has in store for it; no resident has two in store.
        is_tick: Whether it is that of the next tick under the same rules; it then waits for that tick.
    """

    def __init__(
        self,
        residents: dict[Key, Resident],
        slots: Slots,
        rules: HostRules,
        ranks: Any,
        bring_up: BringUp,
        *,
        is_tick: bool,
    ) -> None:
        self.rules = rules
        self.ranks = ranks
        self.is_tick = is_tick
        self.heap: list[Entry] = []
        self._residents = residents
        self._keys = slots.keys
        self._bring_up = bring_up
        self._waiting = len(self._keys) if rules.leaf_only else 0  # those before this place
        self._changed: dict[Key, Resident] = {}

    @property
    def left(self) -> int:
        """Residents that have to be looked at yet."""
        return min(self._waiting, len(self._keys)) + len(self._changed)

    def changed(self, key: Key, resident: Resident) -> None:
        """Something about a resident changed: what was prepared for it is void."""
        if self.rules.leaf_only:
            resident.next_entry = None
            self._changed[key] = resident

    def advance(self, n: int) -> int:
        """Look at up to ``n`` residents; returns how many are left.

        What changed meanwhile comes last, and more than ``n`` at once where that is much.
        """
        waiting = min(self._waiting, len(self._keys))
        if waiting:
            self._waiting = max(0, waiting - n)
            residents = self._residents
            for key in self._keys[self._waiting : waiting]:
                self._prepare(key, residents[key])
        else:
            for _ in range(min(len(self._changed), max(n, len(self._changed) // _SHARE_AT_ONCE))):
                key = self._changed.popitem()[0]
                resident = self._residents.get(key)
                if resident is not None:
                    self._prepare(key, resident)
        return self.left

    def _prepare(self, key: Key, resident: Resident) -> None:
        self._bring_up(resident)
        resident.next_entry = None
        if resident.may_leave(self.rules.copies_leave_first):
            resident.next_entry = entry = (self.ranks.of(resident), resident.sequence, key)
            heappush(self.heap, entry)
