"""The order of one tier's residents under the learned rule, for the plain simulator."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.eviction import BlockAccess, EvictionPolicy, TierContext, nothing_pinned
from autotune.core.learned.history import RunHistory
from autotune.core.learned.keys import IN_USE_KEY, LearnedRules, keys_at
from autotune.core.learned.write_bucket import WriteBucket, outranks

_Entry = tuple[int, int, int]  # key, sequence, block


class _Resident:
    """A resident's parent and depth, its tie-breaker, and whether the device holds it too."""

    __slots__ = ("depth", "in_use", "is_copy", "parent", "sequence")

    def __init__(self, access: BlockAccess) -> None:
        self.parent = access.parent
        self.depth = access.depth_blocks
        self.sequence = access.sequence
        self.is_copy = False
        self.in_use = False


class HazardPolicy(EvictionPolicy):
    """Evicts the leaf with the smallest key of :mod:`autotune.core.decide.hazard`, or of the ``fixed`` one beside it.

    Whoever uses it calls :meth:`advance` before anything that happens at a later moment than what was before, and
    tells the history of a finished request before its blocks are touched.

    Args:
        context: Capacity, and the seconds at stake by depth.
        rules: The rule.
        past: What is remembered of the blocks, shared by all tiers.
        marginal: Whether an engine that makes room first asks for the rank of what comes in.
        stores_early: Whether blocks come in before their request finishes, when nothing is known of their rest.
        bucket: What may be written; ``None`` = everything.
    """

    name = "class_hazard"
    leaf_only = True

    def __init__(
        self,
        context: TierContext,
        rules: LearnedRules,
        past: RunHistory[int],
        *,
        marginal: bool = False,
        stores_early: bool = False,
        bucket: WriteBucket | None = None,
    ) -> None:
        super().__init__(context)
        self.admits_marginally = marginal
        self._rules, self._past, self._stores_early = rules, past, stores_early
        self._bucket = bucket
        self._capacity_blocks = context.capacity_blocks
        self._values_ns = [round_half_up(value_s * NS_PER_S) for value_s in context.value_s]
        self._keys = keys_at(rules, self._value_ns, 0)
        self._residents: dict[int, _Resident] = {}
        self._children: dict[int, int] = {}
        self._heap: list[_Entry] = []
        self._live: dict[int, _Entry] = {}

    def _value_ns(self, depth: int) -> int:
        return self._values_ns[min(depth, len(self._values_ns) - 1)]

    def __len__(self) -> int:
        return len(self._residents)

    def __contains__(self, block: object) -> bool:
        return block in self._residents

    def advance(self, now_ns: int) -> None:
        """Time goes on: in another tick, all blocks have another rank."""
        if now_ns >= self._keys.ends_ns or now_ns < self._keys.began_ns:
            self._keys = keys_at(self._rules, self._value_ns, now_ns)
            self._rank_all()

    def obey(self, rules: LearnedRules, now_ns: int) -> None:
        """Another rule is in force from now on."""
        self._rules = rules
        self._keys = keys_at(rules, self._value_ns, now_ns)
        self._rank_all()

    def _rank_all(self) -> None:
        self._live = {block: self._entry(block) for block in self._residents if self._may_leave(block)}
        self._heap = list(self._live.values())
        heapq.heapify(self._heap)

    def _entry(self, block: int) -> _Entry:
        resident = self._residents[block]
        return self._key(block, resident), resident.sequence, block

    def _key(self, block: int, resident: _Resident) -> int:
        run = self._past.run_of(block)
        if resident.in_use or run is None:
            return IN_USE_KEY
        return self._keys.key(run, resident.depth, resident.is_copy)

    def _may_leave(self, block: int) -> bool:
        """By the leaf rule; what continues a copy that is to leave first hangs on the nearer tier's block."""
        spare = self._residents[block].is_copy and self._rules.copy_factor == 0.0
        return spare or not self._children.get(block)

    def _become_candidate(self, block: int) -> None:
        if self._may_leave(block):
            entry = self._live[block] = self._entry(block)
            heapq.heappush(self._heap, entry)

    def touch(self, access: BlockAccess) -> None:
        """A resident block was used by a request that has finished."""
        resident = self._residents[access.block]
        resident.sequence = access.sequence
        resident.is_copy, resident.in_use = True, False
        self._become_candidate(access.block)

    def renew(self, access: BlockAccess) -> None:
        """The same: whoever brought it in has finished."""
        self.touch(access)

    def insert(self, access: BlockAccess) -> None:
        """A missing block became resident."""
        resident = self._residents[access.block] = _Resident(access)
        resident.is_copy, resident.in_use = True, self._stores_early
        self._settle_in(access)

    def demote(self, access: BlockAccess) -> None:
        """A block came down from the nearer tier, which does not hold it any more."""
        self._residents[access.block] = _Resident(access)
        self._settle_in(access)

    def _settle_in(self, access: BlockAccess) -> None:
        if self._bucket is not None:
            self._bucket.write(access.time_ns)
        if access.parent >= 0:
            self._children[access.parent] = self._children.get(access.parent, 0) + 1
            if access.parent in self._residents and not self._may_leave(access.parent):
                self._live.pop(access.parent, None)
        self._become_candidate(access.block)

    def admits(self, access: BlockAccess) -> bool:
        """Whether the write budget, if there is one, allows a missing block.

        One that a resident continues needs no rank, for without it the resident is of no use; it may even be written
        on credit, which the next ones have to wait for.
        """
        bucket, now_ns = self._bucket, access.time_ns
        if bucket is None:
            return True
        if self._children.get(access.block):
            return bucket.has_credit(now_ns)
        price = bucket.price(now_ns)
        if price <= 1.0 or len(self) < self._capacity_blocks:
            return price < math.inf
        victim = self._smallest(nothing_pinned)
        return victim is not None and outranks(self.rank_on_arrival(access), victim[0], price, self._rules.scale_ns)

    def admits_demoted(self, access: BlockAccess) -> bool:
        """The same for a block that comes down."""
        return self.admits(access)

    def take_back_write(self) -> None:
        """A block left in the round that brought it, so it was never written."""
        if self._bucket is not None:
            self._bucket.take_back()

    def refuse(self, access: BlockAccess) -> None:
        """Nothing: the history has heard of it."""

    def lose_copy(self, block: int) -> None:
        """The nearer tier gave up a block, of which this tier may hold a copy."""
        resident = self._residents.get(block)
        if resident is not None and resident.is_copy:
            resident.is_copy = False
            self._live.pop(block, None)
            self._become_candidate(block)

    def remove(self, block: int) -> None:
        """A resident leaves, and the block that it continues may become a leaf."""
        resident = self._residents.pop(block)
        self._live.pop(block, None)
        if resident.parent >= 0:
            self._children[resident.parent] -= 1
            if resident.parent in self._residents:
                self._become_candidate(resident.parent)

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        """The leaf with the smallest rank leaves; -1 if none may."""
        victim = self._smallest(pinned)
        if victim is None:
            return -1
        self.remove(victim[2])
        return victim[2]

    def _smallest(self, pinned: Callable[[int], bool]) -> _Entry | None:
        passed_over, found = [], None
        while self._heap and found is None:
            entry = self._heap[0]
            if self._live.get(entry[2]) is not entry:
                heapq.heappop(self._heap)
            elif pinned(entry[2]):
                passed_over.append(heapq.heappop(self._heap))
            else:
                found = entry
        for entry in passed_over:
            heapq.heappush(self._heap, entry)
        return found

    # Marginal admission of an engine that makes room first

    def rank_on_arrival(self, access: BlockAccess) -> int:
        """Rank that a missing block would have if it came in now; changes no state."""
        run = self._past.run_of(access.block)
        if self._stores_early or run is None:
            return IN_USE_KEY
        return self._keys.key(run, access.depth_blocks, is_copy=False)

    def next_victim_rank(self, pinned: Callable[[int], bool]) -> int | None:
        """Rank of the block that :meth:`evict` would choose; None if none may leave."""
        victim = self._smallest(pinned)
        return None if victim is None else victim[0]
