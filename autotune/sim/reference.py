"""The tiered cache in plain Python: what the compiled loop must equal, and what runs plug-in policies without a twin.

It is written for reading. Every rule of :mod:`autotune.sim` is one small method here; a property test holds the
compiled loop equal to it for all policies and modes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.decide.value import load_pays, prefill_s, transfer_s
from autotune.core.eviction import NEVER, BlockAccess, EvictionPolicy
from autotune.core.trace import Trace, chain_parents
from autotune.core.types import StoreMode, Tier, Timing
from autotune.sim import tiers
from autotune.sim.columns import (
    DEVICE_HIT,
    DISK_HIT,
    EVICTED_DEVICE,
    EVICTED_HOST,
    HOST_HIT,
    N_COLUMNS,
    OVERSIZED,
    STORED,
    STORED_DISK,
)
from autotune.sim.config import CacheConfig
from autotune.sim.stream import Stream, block_depths, chunk_parents, make_stream

_MARGINAL = 1.0


class TierCache:
    """One tier: its policy, and what the loop has to tell it about each block."""

    def __init__(
        self,
        policy: EvictionPolicy,
        capacity_blocks: int,
        parents: npt.NDArray[np.int32],
        depths: npt.NDArray[np.int32],
    ) -> None:
        self.policy = policy
        self.capacity_blocks = capacity_blocks
        self._parents = parents
        self._depths = depths
        self._sequence = 0
        self.inserted_in: dict[int, int] = {}

    def parent(self, block: int) -> int:
        """The block that a block continues on this tier; -1 if it is the first."""
        return int(self._parents[block])

    def access(self, block: int, time_ns: int, request: int, next_use: int) -> BlockAccess:
        """The next access in order, as the policy sees it."""
        self._sequence += 1
        parent, depth = int(self._parents[block]), int(self._depths[block])
        return BlockAccess(block, parent, depth, time_ns, self._sequence, next_use, request)


class ReferenceCache:
    """State of one simulation; :meth:`run` goes through the requests, :meth:`steps` stops after each.

    Args:
        trace: The trace, already without partial blocks if the engine drops them.
        config: The simulated engine.
        costs: The cost model.
    """

    def __init__(self, trace: Trace, config: CacheConfig, costs: CostProfile) -> None:
        self._trace, self._config, self._costs = trace, config, costs
        self._stream: Stream = make_stream(trace, config)
        parents, depths = chain_parents(trace), block_depths(trace)
        self._tiers: list[TierCache | None] = []
        for tier, spec, blocks in zip(Tier, config.policies, config.capacities, strict=True):
            chunk = 1 if tier is Tier.DEVICE else config.chunk_blocks
            if blocks == 0:
                self._tiers.append(None)
                continue
            unit = config.depth_unit_blocks(tier)
            policy = tiers.plain_policy(spec, tiers.tier_context(blocks // chunk, tier, trace, costs, unit))
            self._tiers.append(TierCache(policy, blocks // chunk, chunk_parents(parents, chunk), depths // unit))
        device = self._tiers[Tier.DEVICE]
        if device is None:
            raise ValueError("CacheConfig guarantees a device tier")
        self._device = device
        self._host, self._disk = self._tiers[Tier.HOST], self._tiers[Tier.DISK]
        self._pins: Counter[int] = Counter()
        self._next_use: dict[int, int] = {}
        self._round = 0
        self.out = np.zeros((trace.n_requests, N_COLUMNS), np.int32)
        self.wait_ns = np.zeros(trace.n_requests, np.int64)

    def run(self) -> None:
        """Go through all requests."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Go through all requests and stop after each; under service timing, where it starts and where it finishes."""
        if self._config.timing is Timing.SERVICE:
            yield from self._steps_in_service()
            return
        for r in range(self._trace.n_requests):
            now_ns = int(self._stream.arrival_ns[r])
            self._start(r, now_ns)
            self._become_idle(r, now_ns)
            yield

    def residents(self, tier: Tier) -> set[int]:
        """Blocks that lie on a tier now, those of running requests left out unless they had a place there before."""
        found = self._tiers[tier]
        return {block for block in range(self._trace.n_blocks) if found and block in found.policy}

    def _blocks(self, r: int) -> list[int]:
        return [int(b) for b in self._trace.blocks_of(r)]

    def _start(self, r: int, now_ns: int) -> None:
        """A request that just got its turn looks its blocks up."""
        self._lookup(r)

    # Lookup

    def _lookup(self, r: int) -> None:
        blocks = self._blocks(r)
        limit = min(len(blocks), int(self._stream.max_hit[r]))
        on_device = self.out[r, DEVICE_HIT] = self._run_on_device(blocks, limit)
        costs = self._costs
        on_host = self._run_below(self._host, blocks, on_device, limit)
        if on_host and not self._pays(r, on_device, on_host, costs.load_bytes_per_s, costs.load_latency_s):
            return
        self.out[r, HOST_HIT] = on_host
        start = on_device + on_host
        on_disk = self._run_below(self._disk, blocks, start, limit)
        # What comes from disk crosses the link too; only a load from the host has paid the link's latency already.
        latency_s = costs.disk_latency_s + (0.0 if on_host else costs.load_latency_s)
        if on_disk and self._pays(r, start, on_disk, tiers.disk_path_bytes_per_s(costs), latency_s):
            self.out[r, DISK_HIT] = on_disk

    def _run_on_device(self, blocks: list[int], limit: int) -> int:
        return next((n for n in range(limit) if not self._present(blocks[n])), max(limit, 0))

    def _present(self, block: int) -> bool:
        return block in self._device.policy or self._pins[block] > 0

    def _run_below(self, tier: TierCache | None, blocks: list[int], start: int, limit: int) -> int:
        if tier is None:
            return 0
        chunk, end = self._config.chunk_blocks, start
        c = start // chunk
        while (c + 1) * chunk <= len(blocks) and end < limit and blocks[(c + 1) * chunk - 1] in tier.policy:
            c += 1
            end = min(c * chunk, limit)
        return end - start

    def _pays(self, r: int, start: int, n: int, bytes_per_s: float, latency_s: float) -> bool:
        if n < self._config.min_load_blocks:
            return False
        if not self._config.check_break_even:
            return True
        block_tokens, costs = self._trace.block_tokens, self._costs
        end_tokens = min(float((start + n) * block_tokens), float(self._trace.input_tokens[r]))
        return load_pays(
            float(start * block_tokens),
            end_tokens,
            costs.prefill_linear_s,
            costs.prefill_quadratic_s,
            n * float(block_tokens * costs.kv_bytes_per_token),
            bytes_per_s,
            latency_s,
        )

    # Blocks become idle

    def _become_idle(self, r: int, now_ns: int, reserved: int = 0) -> None:
        self._round += 1
        if self._config.is_clairvoyant:
            low, high = self._trace.block_offsets[r], self._trace.block_offsets[r + 1]
            for block, use in zip(self._blocks(r), self._stream.next_use[low:high].tolist(), strict=True):
                # A request that began earlier may finish later, and knows of an earlier next use, which has been.
                self._next_use[block] = max(self._next_use.get(block, 0), use)
        blocks = self._blocks(r)
        self._refresh(self._device, blocks, now_ns, r, 1, may_insert=True)
        if self._host:
            self._refresh_host(self._host, blocks, now_ns, r)
        if self._disk:
            self._refresh(self._disk, blocks, now_ns, r, self._config.chunk_blocks, may_insert=False)
        self._shrink_device(now_ns, r, reserved)
        self._shrink_lower(now_ns, r)

    def _refresh(
        self, tier: TierCache, blocks: list[int], now_ns: int, r: int, stride: int, *, may_insert: bool
    ) -> None:
        last = len(blocks) // stride * stride - 1
        for i in range(last, -1, -stride):
            access = tier.access(blocks[i], now_ns, r, self._next_use.get(blocks[i], NEVER))
            if blocks[i] in tier.policy:
                tier.policy.touch(access)
            elif may_insert and tier.policy.admits(access):
                tier.policy.insert(access)
                tier.inserted_in[blocks[i]] = self._round
            else:
                tier.policy.refuse(access)

    def _refresh_host(self, host: TierCache, blocks: list[int], now_ns: int, r: int) -> None:
        before = len(host.policy)
        eager = self._config.store_mode is StoreMode.EAGER
        self._refresh(host, blocks, now_ns, r, self._config.chunk_blocks, may_insert=eager)
        self.out[r, STORED] += len(host.policy) - before
        if self._config.store_mode is StoreMode.EXCLUSIVE:
            for block in reversed(blocks):
                if block in host.policy:
                    host.policy.remove(block)

    def _hand_down(self, tier: TierCache | None, block: int, now_ns: int, r: int, column: int) -> None:
        if tier is None or block in tier.policy:
            return
        access = tier.access(block, now_ns, r, self._next_use.get(block, NEVER))
        if tier.policy.admits_demoted(access):
            tier.policy.demote(access)
            tier.inserted_in[block] = self._round
            self.out[r, column] += 1

    def _shrink_device(self, now_ns: int, r: int, reserved: int) -> None:
        policy = self._device.policy
        while len(policy) + reserved > self._device.capacity_blocks:
            block = policy.evict(lambda b: self._pins[b] > 0)
            if block < 0:
                break
            self.out[r, EVICTED_DEVICE] += 1
            if self._config.store_mode is not StoreMode.EAGER:
                self._hand_down(self._host, block, now_ns, r, STORED)

    def _shrink_lower(self, now_ns: int, r: int) -> None:
        if self._host is None:
            return
        spec = self._config.host_policy
        marginal = spec.name == "rank" and dict(spec.params).get("admission", 0.0) == _MARGINAL
        while len(self._host.policy) > self._host.capacity_blocks:
            block = self._host.policy.evict()
            if marginal and self._host.inserted_in.get(block) == self._round:
                self.out[r, STORED] -= 1
                continue
            self.out[r, EVICTED_HOST] += 1
            self._hand_down(self._disk, block, now_ns, r, STORED_DISK)
        while self._disk and len(self._disk.policy) > self._disk.capacity_blocks:
            self._disk.policy.evict()

    # Service timing

    def _steps_in_service(self) -> Iterator[None]:
        running: list[tuple[int, int]] = []
        now_ns = 0
        for r in range(self._trace.n_requests):
            now_ns = max(now_ns, int(self._stream.arrival_ns[r]))
            while running and (running[0][0] <= now_ns or self._needed(r) > self._device.capacity_blocks):
                finish_ns, done = heapq.heappop(running)
                now_ns = max(now_ns, finish_ns)
                self._finish(done, finish_ns)
                yield
            self.wait_ns[r] = now_ns - self._stream.arrival_ns[r]
            self.out[r, OVERSIZED] = self._needed(r) > self._device.capacity_blocks
            self._start(r, now_ns)
            self._pins.update(self._blocks(r))
            self._round += 1
            self._shrink_device(now_ns, r, self._homeless())
            self._shrink_lower(now_ns, r)
            heapq.heappush(running, (now_ns + self._service_ns(r), r))
            yield
        while running:
            finish_ns, done = heapq.heappop(running)
            self._finish(done, finish_ns)
            yield

    def _needed(self, r: int) -> int:
        held = {b for b, n in self._pins.items() if n > 0}
        return len(held | set(self._blocks(r)))

    def _homeless(self) -> int:
        return sum(1 for b, n in self._pins.items() if n > 0 and b not in self._device.policy)

    def _finish(self, r: int, now_ns: int) -> None:
        own = set(self._blocks(r))
        self._pins.subtract(own)
        for block in own:
            if self._pins[block] == 0:
                del self._pins[block]
        reserved = sum(1 for b, n in self._pins.items() if n > 0 and b not in self._device.policy and b not in own)
        self._become_idle(r, now_ns, reserved)

    def _service_ns(self, r: int) -> int:
        costs, block_bytes = self._costs, float(self._trace.block_tokens * self._costs.kv_bytes_per_token)
        total = float(self._trace.input_tokens[r])
        hits = int(self.out[r, [DEVICE_HIT, HOST_HIT, DISK_HIT]].sum())
        found = min(float(hits * self._trace.block_tokens), max(total - self._config.last_tokens, 0.0))
        linear, quadratic = costs.prefill_linear_s, costs.prefill_quadratic_s
        seconds = prefill_s(total, linear, quadratic) - prefill_s(found, linear, quadratic)
        loaded = int(self.out[r, HOST_HIT] + self.out[r, DISK_HIT])
        seconds += transfer_s(loaded * block_bytes, costs.load_bytes_per_s, costs.load_latency_s)
        from_disk = int(self.out[r, DISK_HIT])
        seconds += transfer_s(from_disk * block_bytes, costs.disk_bytes_per_s, costs.disk_latency_s)
        return int(seconds * 1e9) + int(self._stream.decode_ns[r])
