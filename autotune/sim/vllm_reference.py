"""The vllm mode in plain Python: what the compiled one must equal, and what runs host policies without a twin there.

The rules are those of :mod:`autotune.sim.vllm_mode`, written for reading.
"""

from __future__ import annotations

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.eviction import NEVER, BlockAccess, MarginalAdmission
from autotune.core.trace import Trace
from autotune.sim.columns import DEVICE_HIT, EVICTED_HOST, HOST_HIT, STORED
from autotune.sim.config import CacheConfig
from autotune.sim.journal import FAILED, KEPT, LOADED, NOT_OFFERED, REFUSED, REUSED
from autotune.sim.reference import ReferenceCache, TierCache


class VllmReferenceCache(ReferenceCache):
    """State of one simulation in vllm mode.

    Attributes:
        fates: ``(n_accesses,)`` int8; chunk ``c`` of a request at ``block_offsets[request] + c``.
        evicted: Chunks that left the host, in order.
        calls: ``r`` where request r gets its turn, ``-1 - r`` where it ends.
        end_ns: ``(n_requests,)`` int64 when each ended.
    """

    def __init__(self, trace: Trace, config: CacheConfig, costs: CostProfile) -> None:
        super().__init__(trace, config, costs)
        if self._host is None:
            raise ValueError("CacheConfig guarantees a host tier in vllm mode")
        self._store: TierCache = self._host
        self.fates = np.zeros(trace.n_accesses, np.int8)
        self.evicted: list[int] = []
        self.calls: list[int] = []
        self.end_ns = np.zeros(trace.n_requests, np.int64)

    def _start(self, r: int, now_ns: int) -> None:
        self.calls.append(r)
        if self._config.is_clairvoyant:
            low, high = self._trace.block_offsets[r], self._trace.block_offsets[r + 1]
            self._next_use.update(zip(self._blocks(r), self._stream.next_use[low:high].tolist(), strict=True))
        first = self._find(r)
        self._offer(r, first, now_ns)

    def _become_idle(self, r: int, now_ns: int, reserved: int = 0) -> None:
        self.calls.append(-1 - r)
        self.end_ns[r] = now_ns
        self._make_recent(r, now_ns)
        self._refresh(self._device, self._blocks(r), now_ns, r, 1, may_insert=True)
        self._shrink_device(now_ns, r, reserved)

    def _chunks(self, r: int) -> list[int]:
        """Chunks of a request, each named after its last block."""
        return self._blocks(r)[self._config.chunk_blocks - 1 :: self._config.chunk_blocks]

    def _access(self, r: int, chunk: int, now_ns: int) -> BlockAccess:
        return self._store.access(chunk, now_ns, r, self._next_use.get(chunk, NEVER))

    def _find(self, r: int) -> int:
        """Fill in what a request finds; returns the first chunk that it offers to the host."""
        blocks, chunks, chunk_blocks = self._blocks(r), self._chunks(r), self._config.chunk_blocks
        on_device = self._run_on_device(blocks, min(len(blocks), int(self._stream.max_hit[r])))
        self.out[r, DEVICE_HIT] = on_device
        first = on_device // chunk_blocks
        present = range(first, len(chunks))
        end = next((c for c in present if chunks[c] not in self._store.policy), len(chunks))
        n = end * chunk_blocks - on_device
        costs = self._costs
        if n < chunk_blocks or not self._pays(r, on_device, n, costs.load_bytes_per_s, costs.load_latency_s):
            return 0
        self.out[r, HOST_HIT] = n
        self._mark(r, range(first, end), LOADED)
        return end

    def _mark(self, r: int, chunks: range | list[int], fate: int) -> None:
        for c in chunks:
            self.fates[self._trace.block_offsets[r] + c] = fate

    def _offer(self, r: int, first: int, now_ns: int) -> None:
        policy, chunks = self._store.policy, self._chunks(r)
        offered = range(first, len(chunks))
        candidates = [c for c in offered if chunks[c] not in policy]
        self._mark(r, [c for c in offered if chunks[c] in policy], REUSED)
        self._mark(r, candidates, REFUSED)
        if not candidates:
            return
        accesses = [self._access(r, chunks[c], now_ns) for c in candidates]
        protected = {chunks[c] for c in offered}
        if policy.leaf_only:
            protected.add(accesses[0].parent)
        if isinstance(policy, MarginalAdmission) and policy.admits_marginally:
            n_admitted = self._admit_outranking(r, policy, accesses, protected)
        else:
            n_admitted = next((n for n, access in enumerate(accesses) if not policy.admits(access)), len(accesses))
            policy.on_store_miss(accesses[:n_admitted])
            if not self._make_room(r, n_admitted, protected):
                self._mark(r, candidates[:n_admitted], FAILED)
                return
        for access in accesses[:n_admitted]:
            policy.insert(access)
        self._mark(r, candidates[:n_admitted], KEPT)
        self.out[r, STORED] += n_admitted
        for access in reversed(accesses[n_admitted:]):
            policy.refuse(access)

    def _free(self) -> int:
        return self._store.capacity_blocks - len(self._store.policy)

    def _admit_outranking(
        self, r: int, policy: MarginalAdmission, accesses: list[BlockAccess], protected: set[int]
    ) -> int:
        """Fill the free places, then let candidates displace what they outrank; ranks are those before any change."""
        ranks = [policy.rank_on_arrival(access) for access in accesses]
        free = self._free()
        for n in range(free, len(accesses)):
            rival = policy.next_victim_rank(lambda block: block in protected)
            if rival is None or ranks[n] < rival:
                return n
            self._evict_one(r, protected)
        return len(accesses)

    def _make_room(self, r: int, n_places: int, protected: set[int]) -> bool:
        """Evict what is in the way of ``n_places`` chunks; False, and nothing changes, if too much has to stay."""
        missing = n_places - self._free()
        if missing > 0 and missing > len(self._store.policy) - len(self._kept(protected)):
            return False
        for _ in range(missing):
            self._evict_one(r, protected)
        return True

    def _kept(self, protected: set[int]) -> set[int]:
        """Residents that cannot leave: the protected, and under the leaf rule those that they continue."""
        policy = self._store.policy
        kept: set[int] = set()
        for block in protected:
            kept.update(self._line(block) if policy.leaf_only else [block] if block in policy else [])
        return kept

    def _line(self, block: int) -> list[int]:
        """A resident and the residents that it continues, up to the first gap."""
        line: list[int] = []
        while block in self._store.policy:
            line.append(block)
            block = self._store.parent(block)
        return line

    def _evict_one(self, r: int, protected: set[int]) -> None:
        victim = self._store.policy.evict(lambda block: block in protected)
        if victim < 0:
            raise SimulationError(
                f"policy {self._store.policy.name} must evict as long as a resident is not pinned",
                got=f"no victim among {len(self._store.policy)} residents",
            )
        self.evicted.append(victim)
        self.out[r, EVICTED_HOST] += 1

    def _make_recent(self, r: int, now_ns: int) -> None:
        policy, low = self._store.policy, int(self._trace.block_offsets[r])
        for c, chunk in reversed(list(enumerate(self._chunks(r)))):
            fate = int(self.fates[low + c])
            if fate in (NOT_OFFERED, REFUSED) or chunk not in policy:
                continue
            access = self._access(r, chunk, now_ns)
            if fate in (LOADED, REUSED):
                policy.touch(access)
            else:
                policy.renew(access)
