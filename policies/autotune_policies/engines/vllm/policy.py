"""vLLM's ``CachePolicy`` on top of :class:`HostIndex`, with a fallback that cannot fail.

Source of the interface: vLLM 0.24 to 0.33, ``v1/kv_offload/cpu/policies/base.py``. Chunks are told apart by ``ref_cnt``
only; the class of their status has changed its name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

from autotune.core.clock import monotonic_ns
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.vllm.groups import ChunkGroups

Lineage = dict[bytes, tuple[bytes | None, int]]
FaultHandler = Callable[[str, Exception], None]


class RankCachePolicy(CachePolicy):
    """Residents of the host pool, ordered by the policy in force.

    The chunks themselves are kept here, apart from their order, and change only after the order has answered. So
    whatever goes wrong in ordering them, they are intact: the policy then goes on as plain LRU, for good.

    Attributes:
        lineage: Parent and depth of the chunks that are about to be inserted, told by whoever offers them.
        is_use: Whether a request asked for them; otherwise the device gave them up.

    Args:
        cache_capacity: Chunks that the pool holds.
        index: Order of the residents, empty.
        groups: Groups of layers that keys belong to.
        on_fault: Told once, with what was going on, when the fallback begins.
        now_ns: Monotonic nanoseconds.
    """

    def __init__(
        self,
        cache_capacity: int,
        index: HostIndex,
        groups: ChunkGroups,
        on_fault: FaultHandler,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        super().__init__(cache_capacity)
        self.lineage: Lineage = {}
        self.is_use = True
        self._index: HostIndex | None = index
        self._groups = groups
        self._on_fault = on_fault
        self._now_ns = now_ns
        self._chunks: dict[bytes, Any] = {}
        # The most frequent call of all; as an attribute it needs no frame of its own.
        self.get = self._chunks.get  # type: ignore[method-assign, assignment]

    @property
    def index(self) -> HostIndex | None:
        """Order of the residents; ``None`` after a fault."""
        return self._index

    def __len__(self) -> int:
        return len(self._chunks)

    def get(self, key: bytes) -> Any | None:
        """Status of a resident chunk."""
        return self._chunks.get(key)

    def insert(self, key: bytes, chunk: Any, req_context: Any = None) -> None:
        """A chunk gets its place; it may leave once it is marked evictable."""
        self._chunks[key] = chunk
        if self._index is not None:
            try:
                parent, depth = self.lineage.pop(key, (None, 0))
                self._index.insert(key, parent, depth, self._now_ns(), self.is_use)
                if chunk.ref_cnt == 0:
                    self._index.release(key)
            except Exception as fault:
                self.fall_back("insert", fault)

    def remove(self, key: bytes) -> None:
        """A chunk whose store failed leaves."""
        del self._chunks[key]
        if self._index is not None:
            try:
                self._index.remove(key)
            except Exception as fault:
                self.fall_back("remove", fault)

    def touch(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        """Nothing: an access counts once, when its request ends; vLLM before 0.31 calls this several times before."""

    def on_store_miss(self, keys: Iterable[bytes], req_context: Any) -> None:
        """Nothing: whoever offers the chunks has told the index."""

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[bytes]],
        insertion_only_keys: Collection[bytes],
        reused_keys: Collection[bytes],
        req_context: Any,
    ) -> None:
        """A request ends: its chunks are refreshed, deepest first."""
        keys = key_groups[0] if len(key_groups) == 1 else self._groups.in_order(key_groups, req_context)
        self.refresh(reversed(keys), insertion_only_keys)

    def refresh(self, keys: Iterable[bytes], brought: Collection[bytes]) -> None:
        """Chunks were used, in this order; those that the request brought count no further access."""
        if self._index is None:
            for key in keys:
                if key in self._chunks:
                    self._chunks[key] = self._chunks.pop(key)
            return
        keys = list(keys)
        try:
            self._index.refresh(keys, brought, self._now_ns())
        except Exception as fault:
            self.fall_back("refresh", fault)
            self.refresh(keys, brought)

    def evict(self, n: int, protected: Collection[bytes]) -> list[tuple[bytes, Any]] | None:
        """Exactly ``n`` chunks leave, or none and ``None``."""
        if self._index is None:
            return self._evict_oldest(n, protected)
        try:
            keys = self._index.evict(n, protected)
            if keys and self._groups.has_siblings and self._index.rules.leaf_only:
                self._condemn_siblings(self._index, keys)
        except Exception as fault:
            self.fall_back("evict", fault)
            return self._evict_oldest(n, protected)
        if keys is None:
            return None
        pop = self._chunks.pop
        return [(key, pop(key)) for key in keys]

    def _condemn_siblings(self, index: HostIndex, keys: Iterable[bytes]) -> None:
        """What ends at the same token in the other groups has lost its use; plain LRU knows no such rule."""
        for key in keys:
            for sibling in self._groups.siblings_of(key):
                index.condemn(sibling)

    def mark_evictable(self, key: bytes) -> None:
        """No copy from or to the chunk is in flight any more."""
        if self._index is not None:
            try:
                self._index.release(key)
            except Exception as fault:
                self.fall_back("mark_evictable", fault)

    def mark_non_evictable(self, key: bytes) -> None:
        """A copy from the chunk starts."""
        if self._index is not None:
            try:
                self._index.hold(key)
            except Exception as fault:
                self.fall_back("mark_non_evictable", fault)

    def clear(self) -> None:
        """All chunks leave, whatever is in flight."""
        self._chunks.clear()
        self.lineage.clear()
        if self._index is not None:
            try:
                self._index.clear()
            except Exception as fault:
                self.fall_back("clear", fault)

    # Fallback

    def fall_back(self, during: str, fault: Exception) -> None:
        """Go on as plain LRU for good, in the order in which the chunks were last used, as far as that is known."""
        if self._index is None:
            return
        residents, self._index = self._index.residents, None
        last_used = {key: resident.sequence for key, resident in residents.items()}
        ordered = sorted(self._chunks.items(), key=lambda item: last_used.get(item[0], 0))
        self._chunks = OrderedDict(ordered)
        self.get = self._chunks.get  # type: ignore[method-assign, assignment]
        self.lineage.clear()
        self._on_fault(during, fault)

    def _evict_oldest(self, n: int, protected: Collection[bytes]) -> list[tuple[bytes, Any]] | None:
        victims: list[tuple[bytes, Any]] = []
        for key, chunk in self._chunks.items():
            if len(victims) == n:
                break
            if chunk.ref_cnt == 0 and key not in protected:
                victims.append((key, chunk))
        if len(victims) < n:
            return None
        for key, _ in victims:
            del self._chunks[key]
        return victims
