"""One policy on a ghost cache: which blocks would have been where, and what its misses would have cost. No KV is held.

The rules are those of the simulator's plain cache with instant timing, device and host, blocks stored one by one; a
test holds the two equal. Policies are the plain ones that are registered by name, so nothing is compiled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.core import registry
from autotune.core.costs import CostProfile
from autotune.core.decide.value import load_pays, prefill_s, transfer_s
from autotune.core.errors import ConfigError
from autotune.core.eviction import BlockAccess, EvictionPolicy, PolicySpec, TierContext
from autotune.core.policy import PolicyDocument, policy_spec
from autotune.core.types import StoreMode, Tier

LRU = PolicySpec("lru")
MAX_DEPTH_BLOCKS = 4_096
_MARGINAL = 1.0
_SEQUENCES = 2**20  # per request: its own accesses, and the blocks that it pushes down


@dataclass(frozen=True, slots=True)
class ShadowEngine:
    """The engine that shadows stand in for.

    Attributes:
        device_blocks: Blocks that the device holds.
        host_blocks: Blocks that the host holds; 0 = there is none.
        block_tokens: Tokens of a block.
        full_blocks: Whether only blocks filled to the last token are cached and one token is always computed.

    Raises:
        ConfigError: a capacity or the size of a block means nothing.
    """

    device_blocks: int
    host_blocks: int
    block_tokens: int
    full_blocks: bool = True

    def __post_init__(self) -> None:
        """Refuse what holds nothing."""
        if self.device_blocks < 1 or self.host_blocks < 0 or self.block_tokens < 1:
            raise ConfigError(
                "a shadow's device holds a block, and a block a token",
                got=f"{self.device_blocks} and {self.host_blocks} blocks of {self.block_tokens} tokens",
            )

    def scaled(self, frac: float) -> ShadowEngine:
        """The same engine with that share of the capacity, at least a block per tier."""
        device, host = max(1, round(self.device_blocks * frac)), round(self.host_blocks * frac)
        return ShadowEngine(device, max(host, 1 if self.host_blocks else 0), self.block_tokens, self.full_blocks)


@dataclass(frozen=True, slots=True)
class ShadowPolicy:
    """What a shadow obeys.

    Attributes:
        name: Its name in reports, such as ``lru`` or the beginning of a document's hash.
        device: Policy of the device.
        host: Policy of the host.
        store_mode: When the host gets a block.
        min_load_blocks: Shorter runs are computed again instead of loaded.
    """

    name: str
    device: PolicySpec = LRU
    host: PolicySpec = LRU
    store_mode: StoreMode = StoreMode.EAGER
    min_load_blocks: int = 0

    @classmethod
    def of(cls, name: str, document: PolicyDocument, block_tokens: int) -> ShadowPolicy:
        """What a document says, for blocks of that many tokens."""
        device, host = (policy_spec(document, tier) or LRU for tier in (Tier.DEVICE, Tier.HOST))
        rule = document.tiers.host
        mode, shortest = (rule.store_mode, -(-rule.min_load_tokens // block_tokens)) if rule else (StoreMode.EAGER, 0)
        return cls(name, device, host, mode, shortest)

    def stock(self, name: str = "lru") -> ShadowPolicy:
        """LRU on both tiers in the same store mode: what a gain is measured against."""
        return ShadowPolicy(name, store_mode=self.store_mode, min_load_blocks=self.min_load_blocks)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as every shadow sees it.

    Attributes:
        accesses: Its blocks in prefix order.
        input_tokens: Prompt tokens.
    """

    accesses: tuple[BlockAccess, ...]
    input_tokens: int

    @classmethod
    def of(cls, number: int, time_ns: int, blocks: Sequence[int], input_tokens: int) -> Asked:
        """From the blocks of the request with that number; the deepest block counts as accessed first."""
        first, last = number * _SEQUENCES, len(blocks) - 1
        parents = [-1, *blocks[:-1]]
        return cls(
            tuple(
                BlockAccess(block, parents[depth], depth, time_ns, first + last - depth, request=number)
                for depth, block in enumerate(blocks)
            ),
            input_tokens,
        )


@dataclass(frozen=True, slots=True)
class Served:
    """What a request cost under one policy.

    Attributes:
        cost_s: Seconds of recompute, load and exposed store.
        device_blocks: Blocks found on the device.
        host_blocks: Blocks loaded.
        stored_blocks: Blocks copied to the host.
    """

    cost_s: float
    device_blocks: int
    host_blocks: int
    stored_blocks: int


class ShadowCache:
    """The ghost cache of one policy, empty at first.

    Args:
        policy: What it obeys.
        engine: Capacities, already scaled to the sample.
        costs: What recompute and transfers cost; may be replaced as they are learned.

    Raises:
        UnknownNameError: no policy of that name is registered.
        PolicyError: a parameter is unknown or out of range.
    """

    def __init__(self, policy: ShadowPolicy, engine: ShadowEngine, costs: CostProfile) -> None:
        self.policy, self.costs = policy, costs
        self._engine = engine
        self._device = _plain(policy.device, engine.device_blocks, Tier.DEVICE, engine.block_tokens, costs)
        self._host: EvictionPolicy | None = None
        if engine.host_blocks:
            self._host = _plain(policy.host, engine.host_blocks, Tier.HOST, engine.block_tokens, costs)
        marginal = policy.host.name == "rank" and dict(policy.host.params).get("admission", 0.0) == _MARGINAL
        self._new_on_host: set[int] | None = set() if marginal else None
        self._places: dict[int, tuple[int, int]] = {}  # parent and depth of what lies on the device, to push it down

    def __len__(self) -> int:
        return len(self._device) + (len(self._host) if self._host else 0)

    def serve(self, asked: Asked) -> Served:
        """One request: what it finds, what that costs, and what lies where afterwards."""
        on_device, on_host = self._lookup(asked)
        stored = self._become_idle(asked.accesses)
        return Served(self._cost_s(asked, on_device, on_host, stored), on_device, on_host, stored)

    # Lookup

    def _lookup(self, asked: Asked) -> tuple[int, int]:
        accesses, limit = asked.accesses, len(asked.accesses)
        if self._engine.full_blocks:
            limit = min(limit, max(0, asked.input_tokens - 1) // self._engine.block_tokens)
        on_device = _run(self._device, accesses, 0, limit)
        if self._host is None:
            return on_device, 0
        on_host = _run(self._host, accesses, on_device, limit)
        return on_device, on_host if on_host and self._pays(asked, on_device, on_host) else 0

    def _pays(self, asked: Asked, start: int, n: int) -> bool:
        costs, tokens = self.costs, self._engine.block_tokens
        return n >= self.policy.min_load_blocks and load_pays(
            float(start * tokens),
            min(float((start + n) * tokens), float(asked.input_tokens)),
            costs.prefill_linear_s,
            costs.prefill_quadratic_s,
            n * float(tokens * costs.kv_bytes_per_token),
            costs.load_bytes_per_s,
            costs.load_latency_s,
        )

    def _cost_s(self, asked: Asked, on_device: int, on_host: int, stored: int) -> float:
        costs, tokens = self.costs, self._engine.block_tokens
        linear, quadratic = costs.prefill_linear_s, costs.prefill_quadratic_s
        block_bytes = float(tokens * costs.kv_bytes_per_token)
        found = min((on_device + on_host) * tokens, asked.input_tokens)
        recompute_s = prefill_s(asked.input_tokens, linear, quadratic) - prefill_s(found, linear, quadratic)
        load_s = transfer_s(on_host * block_bytes, costs.load_bytes_per_s, costs.load_latency_s)
        store_s = transfer_s(stored * block_bytes, costs.store_bytes_per_s, costs.store_latency_s)
        return recompute_s + load_s + costs.store_exposed_frac * store_s

    # Blocks become idle

    def _become_idle(self, accesses: tuple[BlockAccess, ...]) -> int:
        mode, host = self.policy.store_mode, self._host
        _refresh(self._device, accesses, may_insert=True)
        stored = 0
        if host is not None:
            before = len(host)
            came = _refresh(host, accesses, may_insert=mode is StoreMode.EAGER)
            if self._new_on_host is not None:
                self._new_on_host.update(came)
            stored = len(host) - before
            if mode is StoreMode.EXCLUSIVE:
                for access in reversed(accesses):
                    if access.block in host:
                        host.remove(access.block)
        if mode is not StoreMode.EAGER and host is not None:
            device = self._device
            self._places.update((a.block, (a.parent, a.depth_blocks)) for a in accesses if a.block in device)
        stored += self._shrink_device(accesses)
        return stored - self._shrink_host()

    def _shrink_device(self, accesses: tuple[BlockAccess, ...]) -> int:
        """Make the device fit; blocks that were pushed down to the host."""
        stored = 0
        while len(self._device) > self._engine.device_blocks:
            block = self._device.evict()
            place = self._places.pop(block, None)
            if place is not None and accesses:
                stored += self._hand_down(block, place, accesses[0], stored)
        return stored

    def _hand_down(self, block: int, place: tuple[int, int], cause: BlockAccess, before: int) -> bool:
        host = self._host
        if host is None or block in host:
            return False
        sequence = (cause.request + 1) * _SEQUENCES - _SEQUENCES // 2 + before
        access = BlockAccess(block, *place, cause.time_ns, sequence, request=cause.request)
        if not host.admits_demoted(access):
            return False
        host.demote(access)
        if self._new_on_host is not None:
            self._new_on_host.add(block)
        return True

    def _shrink_host(self) -> int:
        """Make the host fit; blocks that left as soon as they came and thus were never stored."""
        never = 0
        if self._host is not None:
            while len(self._host) > self._engine.host_blocks:
                block = self._host.evict()
                never += self._new_on_host is not None and block in self._new_on_host
        if self._new_on_host is not None:
            self._new_on_host.clear()
        return never


def _run(policy: EvictionPolicy, accesses: tuple[BlockAccess, ...], start: int, limit: int) -> int:
    """Blocks from ``start`` on that a tier holds without a gap."""
    end = start
    while end < limit and accesses[end].block in policy:
        end += 1
    return end - start


def _refresh(policy: EvictionPolicy, accesses: tuple[BlockAccess, ...], *, may_insert: bool) -> list[int]:
    """A request's blocks were used, deepest first; those that came in."""
    came = []
    for access in reversed(accesses):
        if access.block in policy:
            policy.touch(access)
        elif may_insert and policy.admits(access):
            policy.insert(access)
            came.append(access.block)
        else:
            policy.refuse(access)
    return came


def _plain(spec: PolicySpec, blocks: int, tier: Tier, block_tokens: int, costs: CostProfile) -> EvictionPolicy:
    edges = costs.prefill_s(np.arange(MAX_DEPTH_BLOCKS + 1, dtype=np.float64) * block_tokens)
    value_s = np.diff(edges)
    if tier is not Tier.DEVICE:
        value_s = np.maximum(value_s - costs.block_load_s(block_tokens), 0.0)
    context = TierContext(blocks, tuple(value_s.tolist()))
    policy: EvictionPolicy = registry.load(registry.POLICIES, spec.name)(context, **dict(spec.params))
    return policy
