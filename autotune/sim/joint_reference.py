"""LRU over device and host in plain Python: what :func:`autotune.sim.joint_lru.simulate_joint_lru` must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.eviction import BlockAccess, EvictionPolicy, PolicySpec, TierContext, nothing_pinned
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim.config import CacheConfig
from autotune.sim.reference import ReferenceCache, TierCache

_LRU = PolicySpec("lru")


class JointOrder(EvictionPolicy):
    """Who leaves the host next: copies of what the device holds, then what the device gave up first.

    Args:
        context: Capacity.
    """

    name = "joint_lru"

    def __init__(self, context: TierContext) -> None:
        super().__init__(context)
        self._copies: dict[int, None] = {}
        self._alone: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._copies) + len(self._alone)

    def __contains__(self, block: object) -> bool:
        return block in self._copies or block in self._alone

    def touch(self, access: BlockAccess) -> None:
        """A request used it, so the device holds it too."""
        if access.block in self._alone:
            del self._alone[access.block]
            self._copies[access.block] = None

    def insert(self, access: BlockAccess) -> None:
        """Nothing comes in by its use: stores wait until the device evicts."""
        raise SimulationError("a joint LRU gets its blocks from the device", got=f"block {access.block}")

    def demote(self, access: BlockAccess) -> None:
        """It came down from the device, which does not hold it any more."""
        self._alone[access.block] = None

    def lose_copy(self, block: int) -> None:
        """The device gave up a block that may lie here."""
        if block in self._copies:
            del self._copies[block]
            self._alone[block] = None

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        """The first in order leaves; -1 if none may."""
        for queue in (self._copies, self._alone):
            for block in queue:
                if not pinned(block):
                    del queue[block]
                    return block
        return -1

    def remove(self, block: int) -> None:
        """It moved up to the device."""
        self._copies.pop(block, None)
        self._alone.pop(block, None)


class JointReference(ReferenceCache):
    """LRU on the device, and on the host the same LRU continued, unless stores are eager.

    Args:
        trace: The trace, already without partial blocks if the engine drops them.
        config: The simulated engine; its policies of device and host are not looked at.
        costs: The cost model.
    """

    def __init__(self, trace: Trace, config: CacheConfig, costs: CostProfile) -> None:
        super().__init__(trace, replace(config, device_policy=_LRU, host_policy=_LRU), costs)
        self._order: JointOrder | None = None
        if self._host is not None and config.store_mode is not StoreMode.EAGER:
            self._order = JointOrder(self._host.policy.context)
            self._host.policy = self._order

    def _hand_down(self, tier: TierCache | None, block: int, now_ns: int, r: int, column: int) -> None:
        super()._hand_down(tier, block, now_ns, r, column)
        if self._order is not None and tier is self._tiers[Tier.HOST]:
            self._order.lose_copy(block)
