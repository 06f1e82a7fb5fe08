"""Policies that evict the smallest key: one frame for the rank rule, LFU, LRFU, GDSF and the clairvoyant bounds.

They differ in the key only. Usage counts, ghosts, the heap and the leaf rule are common and equal, operation by
operation, those of the compiled twin in ``kernels/ranked.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from autotune.core.decide.rank import decayed_frequency
from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.ghosts import Ghosts, Usage
from autotune_policies.heap import VictimHeap
from autotune_policies.parameters import ParameterisedPolicy


class _Resident:
    """A resident's usage, its place in the order and its parent."""

    __slots__ = ("key", "parent", "sequence", "usage")

    def __init__(self, usage: Usage, parent: int) -> None:
        self.usage = usage
        self.parent = parent
        self.key = 0
        self.sequence = 0


class KeyedPolicy(ParameterisedPolicy):
    """Evicts the candidate with the smallest ``(key, sequence of its last access)``. O(log n) per operation.

    With ``leaf_only``, a block is a candidate only while no resident block continues it. So a pinned block keeps its
    whole prefix, and :meth:`evict` answers -1 once every leaf is pinned.
    """

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._half_life_s = 0.0
        self._ghosts = Ghosts(0)
        self._residents: dict[int, _Resident] = {}
        self._children: dict[int, int] = {}
        self._candidates = VictimHeap()

    @abstractmethod
    def _key(self, access: BlockAccess, frequency: float) -> int:
        """Key of a block as of this access."""

    def __len__(self) -> int:
        return len(self._residents)

    def __contains__(self, block: object) -> bool:
        return block in self._residents

    def touch(self, access: BlockAccess) -> None:
        resident = self._residents[access.block]
        resident.usage = self._counted(resident.usage, access)
        self._place(access, resident)

    def renew(self, access: BlockAccess) -> None:
        resident = self._residents[access.block]
        resident.usage = Usage(resident.usage.frequency, access.time_ns)
        self._place(access, resident)

    def insert(self, access: BlockAccess) -> None:
        self._settle_in(access, self._counted(self._ghosts.take(access.block), access))

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        victim = self._candidates.smallest(pinned)
        if victim >= 0:
            self._on_evict(self._residents[victim].key)
            self.remove(victim)
        return victim

    def remove(self, block: int) -> None:
        resident = self._residents.pop(block)
        self._candidates.discard(block)
        if self.leaf_only and resident.parent >= 0:
            self._lose_child(resident.parent)
        self._ghosts.put(block, resident.usage)

    def _on_evict(self, key: int) -> None:
        """A block with this key is about to leave."""

    def _counted(self, known: Usage | None, access: BlockAccess) -> Usage:
        """One more access: the remembered frequency decays to now, then this access counts 1."""
        if known is None:
            return Usage(1.0, access.time_ns)
        elapsed_s = (access.time_ns - known.last_ns) / 1e9
        return Usage(decayed_frequency(known.frequency, elapsed_s, self._half_life_s) + 1.0, access.time_ns)

    def _settle_in(self, access: BlockAccess, usage: Usage) -> None:
        resident = _Resident(usage, access.parent)
        self._residents[access.block] = resident
        if self.leaf_only and access.parent >= 0:
            self._children[access.parent] = self._children.get(access.parent, 0) + 1
            self._candidates.discard(access.parent)
        self._place(access, resident)

    def _place(self, access: BlockAccess, resident: _Resident) -> None:
        resident.key = self._key(access, resident.usage.frequency)
        resident.sequence = access.sequence
        if access.block not in self._children:
            self._candidates.set(access.block, resident.key, resident.sequence)

    def _lose_child(self, parent: int) -> None:
        left = self._children[parent] - 1
        if left > 0:
            self._children[parent] = left
            return
        del self._children[parent]
        resident = self._residents.get(parent)
        if resident is not None:
            self._candidates.set(parent, resident.key, resident.sequence)
