"""Who may leave a host pool, and who leaves next.

Plain LRU (w = 0) is the order in which the residents stand in their dictionary. Where the rules rank (w > 0), a heap
holds the residents that nothing continues. A heap entry is a lower bound: an access moves a chunk's rank up and leaves
its entry alone; when the entry surfaces, it gives way to one with the current rank. So accesses are O(1), evictions
O(log n) amortised, and the order is exact.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from autotune.core.learned import RunHistory
from autotune_policies.engines.live.chains import Chains
from autotune_policies.engines.live.changes import RANKED_AT_ONCE, OrderChanges, ranks_under
from autotune_policies.engines.live.ghosts import GhostEntries
from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.slots import Slots
from autotune_policies.engines.live.swap import OrderSwap

_SLACK = 64
_FIRST_OUT = -(2**62)


class Departures(OrderChanges):
    """Part of :class:`autotune_policies.engines.live.index.HostIndex`: its residents, and in which order they leave.

    Victims may be chosen ahead of the eviction that takes them; meanwhile they are staged, and count as gone where it
    is asked who continues whom.

    Args:
        capacity: Chunks that the pool holds.
        chunk_tokens: Tokens of one chunk.
        rules: Rules in force.

    Attributes:
        residents: What is on the host, the least recently used first.
        ghosts: What is remembered of the others.
        protected_parent: A chunk that stays whatever its rank.
        on_device: Whether the device holds a chunk; ``None`` = nobody tells.
    """

    def __init__(self, capacity: int, chunk_tokens: int, rules: HostRules) -> None:
        self.capacity = capacity
        self.chunk_tokens = chunk_tokens
        self.rules = rules
        self.residents: OrderedDict[Key, Resident] = OrderedDict()
        self.ghosts = GhostEntries(rules.ghost_entries(capacity))
        self.protected_parent: Key | None = None
        self.past: RunHistory[Key] | None = None
        self.on_device: Callable[[Key], bool] | None = None
        self.ranked_at_once = RANKED_AT_ONCE
        self._slots = Slots()
        self._ranks = ranks_under(rules, chunk_tokens, None, 0)
        self._leaf_only = rules.leaf_only
        self._chains = Chains(self.residents)
        self._heap: list[Entry] = []
        self._staged: list[Entry] = []
        self._version = 0
        self._swap: OrderSwap | None = None
        self._waste: list[Entry] = []

    def __len__(self) -> int:
        return len(self.residents)

    # Copies in flight

    def release(self, key: Key) -> None:
        """No copy from or to the chunk is in flight any more: it may leave."""
        resident = self.residents[key]
        resident.evictable = True
        if self._swap is not None:
            self._swap.changed(key, resident)
        if self._leaf_only:
            self._become_candidate(key, resident)

    def hold(self, key: Key) -> None:
        """A copy from the chunk starts: it stays until :meth:`release`."""
        self.residents[key].evictable = False

    # Candidates

    def _become_candidate(self, key: Key, resident: Resident) -> None:
        if resident.version != self._version:
            self._bring_up(resident)
        if resident.entry is None and resident.may_leave(self.rules.copies_leave_first):
            self._push(key, resident)

    def _push(self, key: Key, resident: Resident) -> None:
        resident.entry = entry = (resident.rank, resident.sequence, key)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self.residents) + _SLACK:
            self._heap[:] = [entry for entry in self._heap if self._is_live(entry)]
            heapify(self._heap)
        if self._swap is not None:
            self._swap.changed(key, resident)

    def _is_live(self, entry: Entry) -> bool:
        resident = self.residents.get(entry[2])
        if resident is None:
            return False
        return (resident.entry if resident.version == self._version else resident.next_entry) is entry

    # Eviction

    def evict(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        """Choose exactly ``n`` chunks, smallest rank first, forget and return them; ``None`` changes nothing.

        Args:
            n: Chunks that have to go.
            protected: Chunks that stay whatever their rank; so does :attr:`protected_parent`.
        """
        chosen, self._staged = self._staged, []
        self._put_back(chosen[n:])
        del chosen[n:]
        if not self._leaf_only:
            return self._evict_oldest(n, protected)
        if len(chosen) < n and not self._choose(chosen, n, protected):
            self._put_back(chosen)
            return None
        keys = [entry[2] for entry in chosen]
        for key in keys:
            self._forget(key, self.residents.pop(key))
        return keys

    def _evict_oldest(self, n: int, protected: Collection[Key]) -> list[Key] | None:
        keys = self._oldest(n, protected)
        if len(keys) < n:
            return None
        for key in keys:
            resident = self.residents.pop(key)
            if resident.parent is not None:
                self._lose_child(resident.parent)
            self._forget(key, resident)
        return keys

    def _oldest(self, n: int, protected: Collection[Key]) -> list[Key]:
        """Up to ``n`` chunks that may leave, the least recently used first."""
        keys: list[Key] = []
        for key, resident in self.residents.items():
            if len(keys) == n:
                break
            if resident.evictable and key not in protected:
                keys.append(key)
        return keys

    def _choose(
        self, chosen: list[Entry], n: int, protected: Collection[Key], ranks: Sequence[int] | None = None
    ) -> bool:
        """Take candidates off the heap until ``n`` are chosen; false where there are not that many.

        Args:
            chosen: Filled up to length ``n``.
            n: Wanted length.
            protected: Chunks that stay.
            ranks: Rank that the i-th one must not exceed; the first one that does ends the choice.
        """
        heap, residents, copies_leave_first = self._heap, self.residents, self.rules.copies_leave_first
        passed_over: list[Entry] = []
        while heap and len(chosen) < n:
            entry = heap[0]
            key = entry[2]
            resident = residents.get(key)
            if resident is None:
                heappop(heap)
                continue
            if resident.version != self._version:
                self._bring_up(resident)
            if resident.entry is not entry:
                heappop(heap)
            elif not resident.may_leave(copies_leave_first):
                heappop(heap)
                resident.entry = None
            elif resident.sequence != entry[1] or resident.rank != entry[0]:
                resident.entry = fresh = (resident.rank, resident.sequence, key)
                heapreplace(heap, fresh)
            elif resident.is_copy and self.on_device is not None and not self.on_device(key):
                self._lose_copy(key, resident)
            elif key in protected or key == self.protected_parent:
                passed_over.append(heappop(heap))
            elif ranks is not None and ranks[len(chosen)] < entry[0]:
                break
            else:
                chosen.append(heappop(heap))  # it keeps its entry, so that the loss of a child does not bring it back
                if resident.parent is not None:
                    self._lose_child(resident.parent)
        for entry in passed_over:
            heappush(heap, entry)
        return len(chosen) == n

    def _lose_copy(self, key: Key, resident: Resident) -> None:
        """The device has given up a chunk, which nobody tells: seen when its copy here is about to leave."""
        resident.is_copy = False
        resident.rank = self._ranks.of(resident)
        if self._swap is not None:
            self._swap.changed(key, resident)

    def _put_back(self, chosen: Sequence[Entry]) -> None:
        """Undo a choice: every chunk is a candidate again, with the entry that it had."""
        for entry in chosen:
            resident = self.residents[entry[2]]
            if resident.entry is entry:
                heappush(self._heap, entry)
            if resident.parent is not None:
                self._chains.gain(resident.parent)

    def unstage(self) -> None:
        """Put back the victims that :meth:`admit` chose and no eviction took."""
        if self._staged:
            staged, self._staged = self._staged, []
            self._put_back(staged)

    def _lose_child(self, parent: Key) -> None:
        above = self._chains.lose(parent)
        if above is not None:
            if self._swap is not None:
                self._swap.changed(parent, above)
            if self._leaf_only and (above.entry is None or above.version != self._version):
                self._become_candidate(parent, above)

    def _forget(self, key: Key, resident: Resident) -> None:
        """A chunk has left, and its parent was told; what it was continued by waits for it to come back."""
        self._slots.take_out(resident, self.residents)
        if resident.children:
            self._chains.leave(key, resident)
        self.ghosts.put(key, resident.frequency, resident.last_ns)

    def remove(self, key: Key) -> None:
        """A chunk leaves for a reason other than space, such as a store that failed."""
        resident = self.residents.pop(key)
        if resident.parent is not None:
            self._lose_child(resident.parent)
        self._forget(key, resident)

    def condemn(self, key: Key) -> None:
        """Make a resident, if it is one, the next victim: what it belonged to is gone."""
        resident = self.residents.get(key)
        if resident is None:
            return
        self.residents.move_to_end(key, last=False)
        if self._leaf_only:
            if resident.version != self._version:
                self._bring_up(resident)
            resident.rank = _FIRST_OUT
            if resident.entry is not None:
                self._push(key, resident)
