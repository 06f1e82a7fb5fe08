"""The host tier's residents, who may leave and who leaves next: the rank rule and the learned one in an engine.

The same rules and the same numbers as :class:`autotune_policies.rank.rank.RankPolicy`,
:class:`autotune.core.learned.HazardPolicy` and their compiled twins, for opaque keys, with copies in flight, for chunks
that are offered in runs and evicted exactly n at a time. All of it runs inside an engine's scheduler, so it is written
for speed: one slotted object per resident, one heap entry per candidate.

Plain LRU (w = 0) is the order in which the residents stand in their dictionary. Where the rules rank (w > 0), a heap
holds the residents that nothing continues. A heap entry is a lower bound: an access moves a chunk's rank up and leaves
its entry alone; when the entry surfaces, it gives way to one with the current rank. So accesses are O(1), evictions
O(log n) amortised, and the order is exact.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from autotune.core.learned import Run, RunHistory
from autotune.core.types import Admission
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.chains import Chains
from autotune_policies.engines.live.changes import RANKED_AT_ONCE, OrderChanges, ranks_under
from autotune_policies.engines.live.ghosts import GhostEntries
from autotune_policies.engines.live.resident import IN_USE, Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.slots import Slots
from autotune_policies.engines.live.swap import OrderSwap
from autotune_policies.engines.live.writes import Candidates, HostWrites, offers_of

_SLACK = 64
_FIRST_OUT = -(2**62)


class HostIndex(OrderChanges):
    """Order of the residents of a host pool.

    Invariants: :meth:`evict` answers exactly n keys or ``None``, and ``None`` changes nothing; a chunk that is held
    never leaves by :meth:`evict`; where the rules rank (w > 0), neither does one that a resident continues.

    Args:
        capacity: Chunks that the pool holds.
        chunk_tokens: Tokens of one chunk.
        rules: Rules in force.
    """

    def __init__(self, capacity: int, chunk_tokens: int, rules: HostRules) -> None:
        self.capacity = capacity
        self.chunk_tokens = chunk_tokens
        self.rules = rules
        self.residents: OrderedDict[Key, Resident] = OrderedDict()  # the least recently used first
        self._slots = Slots()
        self.ghosts = GhostEntries(rules.ghost_entries(capacity))
        self.protected_parent: Key | None = None
        self.past: RunHistory[Key] | None = None
        self.writes: HostWrites | None = None  # what may be written; None = everything
        self.on_device: Callable[[Key], bool] | None = None  # whether the device holds a chunk; None = nobody tells
        self.ranked_at_once = RANKED_AT_ONCE
        self._ranks = ranks_under(rules, chunk_tokens, None, 0)
        self._leaf_only = rules.leaf_only
        self._chains = Chains(self.residents)
        self._heap: list[Entry] = []
        self._staged: list[Entry] = []
        self._sequence = 0
        self._version = 0
        self._swap: OrderSwap | None = None
        self._waste: list[Entry] = []

    def __len__(self) -> int:
        return len(self.residents)

    # Accesses

    def insert(self, key: Key, parent: Key | None, depth: int, now_ns: int, is_use: bool = True) -> None:
        """A missing chunk gets a place and is held until :meth:`release`. A ghost takes its statistics back.

        Args:
            key: The chunk.
            parent: The chunk that it continues.
            depth: Position in its chain, in chunks.
            now_ns: Time.
            is_use: Whether a request asked for it; otherwise the device gave it up, which counts no access.
        """
        frequency = self._frequency(self.ghosts.take(key) if is_use else self.ghosts.settle(key), now_ns, is_use)
        resident = Resident(parent, depth, self._chains.waiting_for(key), frequency, now_ns)
        if parent is not None:
            self._chains.gain(parent)
        if self.past is not None:
            resident.run = IN_USE if is_use else self.past.run_of(key)
        self.residents[key] = resident
        self._slots.add(key, resident)
        resident.version = self._version
        self._place(key, resident, now_ns)

    def refresh(
        self, keys: Iterable[Key], brought: Collection[Key], now_ns: int, runs: Mapping[Key, Run] | None = None
    ) -> None:
        """A request ends; its chunks are refreshed in this order.

        Args:
            keys: What it used, deepest first; those that are not resident are passed over.
            brought: Those that it brought in: their recency is now, their count stays. The others were used again and
                count one more access.
            now_ns: Time.
            runs: The runs that they stand in, where that is not known by their keys.
        """
        self.at(now_ns)
        residents, counted = self.residents, self._ranks.counted
        for key in keys:
            resident = residents.get(key)
            if resident is None:
                continue
            if resident.version != self._version:
                self._bring_up(resident)
            if key not in brought:
                resident.frequency = counted(resident.frequency, resident.last_ns, now_ns)
            if self.past is not None:
                resident.run = (runs or {}).get(key) or self.past.run_of(key) or self.past.last_run
                resident.is_copy = self.on_device is not None
            self._place(key, resident, now_ns)
            if resident.is_copy and resident.children and self._leaf_only:
                self._become_candidate(key, resident)

    def refuse(self, keys: Iterable[Key], now_ns: int) -> None:
        """Missing chunks were asked for and stay out: one access of their ghosts each."""
        for key in keys:
            known = self.ghosts.take(key)
            frequency = 1.0 if known is None else self._ranks.counted(known[0], known[1], now_ns)
            self.ghosts.put(key, frequency, now_ns)

    def _place(self, key: Key, resident: Resident, now_ns: int) -> None:
        """Give a resident its place as of now. Its heap entry stays, unless the rank fell below it."""
        self._sequence += 1
        resident.last_ns = now_ns
        resident.sequence = self._sequence
        self.residents.move_to_end(key)
        if self._leaf_only:
            resident.rank = rank = self._ranks.of(resident)
            entry = resident.entry
            if entry is not None and rank < entry[0]:
                self._push(key, resident)
        if self._swap is not None:
            self._swap.changed(key, resident)

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

    def clear(self) -> None:
        """Forget everything, ghosts too; rules that were being prepared are obeyed at once."""
        for content in (self.residents, self._slots.keys, self._chains.orphans, self._heap, self._staged):
            content.clear()
        self.ghosts.clear()
        self.protected_parent = None
        if self._swap is not None:
            self.begin_swap(self._swap.rules)
            self.advance_swap(1)

    # Admission

    def admit(
        self, candidates: Candidates, n_free: int, protected: Collection[Key], now_ns: int, is_use: bool = True
    ) -> int:
        """How many of the missing chunks come in, from the first on; the first refusal ends the run.

        Under marginal admission or a write budget the victims are chosen on the way and kept for the :meth:`evict` that
        follows; :meth:`unstage` puts them back where none does.

        Args:
            candidates: ``(key, depth)`` of missing chunks in prefix order.
            n_free: Free places.
            protected: Chunks that stay.
            now_ns: Time of the offer.
            is_use: As for :meth:`insert`; what the device gives up is known after its second use.
        """
        n = self._n_admitted(candidates, n_free, protected, now_ns, is_use)
        if self.writes is None or not self.writes.are_limited:
            return n
        if self.rules.learned is None:
            return self.writes.count_paid(offers_of(candidates[:n], self._chains.orphans), now_ns)
        self._choose(self._staged, n - n_free, protected)
        ranks = (self._ranks.arriving(key, depth, 1.0, now_ns, is_use) for key, depth in candidates[n_free:n])
        contests = list(zip(ranks, self._staged, strict=False))
        return self.writes.count_paid(offers_of(candidates[:n], self._chains.orphans, n_free, contests), now_ns)

    def _n_admitted(
        self, candidates: Candidates, n_free: int, protected: Collection[Key], now_ns: int, is_use: bool
    ) -> int:
        if self.rules.admission is Admission.ALL:
            return len(candidates)
        if self.rules.admission is Admission.TWO_HIT:
            known = self.ghosts.__contains__ if is_use else self.ghosts.was_used_twice
            return next((i for i, (key, _) in enumerate(candidates) if not known(key)), len(candidates))
        n_free = min(n_free, len(candidates))
        if not self._leaf_only:  # whatever is asked for now outranks what was asked for before
            return n_free + len(self._oldest(len(candidates) - n_free, protected))
        self.unstage()
        wanted = [
            self._ranks.arriving(key, depth, self._frequency(self.ghosts.get(key), now_ns, is_use), now_ns, is_use)
            for key, depth in candidates[n_free:]
        ]
        self._choose(self._staged, len(wanted), protected, wanted)
        return n_free + len(self._staged)

    def unstage(self) -> None:
        """Put back the victims that :meth:`admit` chose and no eviction took."""
        if self._staged:
            staged, self._staged = self._staged, []
            self._put_back(staged)

    def _frequency(self, known: tuple[float, int] | None, now_ns: int, is_use: bool) -> float:
        """Frequency of a chunk that is not resident, as of now."""
        if known is None:
            return 1.0
        return self._ranks.counted(known[0], known[1], now_ns) if is_use else known[0]

    # What is known

    def usage(self, key: Key, now_ns: int) -> tuple[float, float] | None:
        """Accesses with one more now, decayed, and seconds since the last; ``None`` where nothing is remembered."""
        resident = self.residents.get(key)
        known = (resident.frequency, resident.last_ns) if resident is not None else self.ghosts.get(key)
        if known is None:
            return None
        return self._ranks.counted(known[0], known[1], now_ns), (now_ns - known[1]) / NS_PER_S
