"""LFU that remembers the counts of blocks that left."""

from __future__ import annotations

import math
from typing import ClassVar

from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.ghosts import Ghosts
from autotune_policies.keyed import KeyedPolicy
from autotune_policies.parameters import Interval


class LFUPolicy(KeyedPolicy):
    """Evicts the block with the fewest uses, the least recently used among equals. O(log n).

    A block that leaves keeps its count as a ghost, so a block earns its place over several visits. New blocks compete
    like all others, so one may leave in the round that brought it.

    Parameters: ``ghost_ratio`` ghosts kept per block of capacity.
    """

    name = "lfu"
    PARAMETERS: ClassVar[dict[str, float]] = {"ghost_ratio": 1.0}
    RANGES: ClassVar[dict[str, Interval]] = {"ghost_ratio": Interval(0.0, 1000.0)}

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._ghosts = Ghosts(math.ceil(self._params["ghost_ratio"] * context.capacity_blocks))

    def _key(self, access: BlockAccess, frequency: float) -> int:
        return int(frequency)
