"""LRU over device and host in plain Python: what :func:`autotune.sim.joint_lru.simulate_joint_lru` must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.eviction import BlockAccess, EvictionPolicy, PolicySpec, TierContext, nothing_pinned
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim.config import CacheConfig
from autotune.sim.reference import ReferenceCache, TierCache

_LRU = PolicySpec("lru")


class JointOrder(EvictionPolicy):
    """Who leaves the host next: copies of what the device holds, then the least recently used, of those the deepest.

    Args:
        context: Capacity.
        last_ns: When the last request that used a block finished, for every block so far.
    """

    name = "joint_lru"

    def __init__(self, context: TierContext, last_ns: dict[int, int]) -> None:
        super().__init__(context)
        self._last_ns = last_ns
        self._keys: dict[int, tuple[bool, int, int, int]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, block: object) -> bool:
        return block in self._keys

    def _place(self, access: BlockAccess, *, is_alone: bool) -> None:
        self._keys[access.block] = (is_alone, self._last_ns[access.block], -access.depth_blocks, access.sequence)

    def touch(self, access: BlockAccess) -> None:
        """A request used it, so the device holds it too."""
        self._place(access, is_alone=False)

    def insert(self, access: BlockAccess) -> None:
        """The same of a block that comes in."""
        self._place(access, is_alone=False)

    def demote(self, access: BlockAccess) -> None:
        """It came down from the device, which does not hold it any more."""
        self._place(access, is_alone=True)

    def lose_copy(self, block: int) -> None:
        """The device gave up a block that may lie here."""
        if block in self._keys:
            self._keys[block] = (True, *self._keys[block][1:])

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        """The first in order leaves; -1 if none may."""
        block = min((b for b in self._keys if not pinned(b)), key=self._keys.__getitem__, default=-1)
        self._keys.pop(block, None)
        return block

    def remove(self, block: int) -> None:
        """It moved up to the device."""
        del self._keys[block]


class JointReference(ReferenceCache):
    """LRU on the device, and on the host the same LRU continued, unless stores are eager.

    Args:
        trace: The trace, already without partial blocks if the engine drops them.
        config: The simulated engine; its policies of device and host are not looked at.
        costs: The cost model.
    """

    def __init__(self, trace: Trace, config: CacheConfig, costs: CostProfile) -> None:
        super().__init__(trace, replace(config, device_policy=_LRU, host_policy=_LRU), costs)
        self._last_ns: dict[int, int] = {}
        self._order: JointOrder | None = None
        if self._host is not None and config.store_mode is not StoreMode.EAGER:
            self._order = JointOrder(self._host.policy.context, self._last_ns)
            self._host.policy = self._order

    def _become_idle(self, r: int, now_ns: int, reserved: int = 0) -> None:
        self._last_ns |= dict.fromkeys(self._blocks(r), now_ns)
        super()._become_idle(r, now_ns, reserved)

    def _hand_down(self, tier: TierCache | None, block: int, now_ns: int, r: int, column: int) -> None:
        super()._hand_down(tier, block, now_ns, r, column)
        if self._order is not None and tier is self._tiers[Tier.HOST]:
            self._order.lose_copy(block)
