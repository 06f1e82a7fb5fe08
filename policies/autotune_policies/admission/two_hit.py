"""LRU behind vLLM's ``store_threshold``: a block is stored once it was asked for often enough."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.parameters import Interval
from autotune_policies.recency.lru import LRUPolicy


class TwoHitPolicy(LRUPolicy):
    """LRU that admits a block at its ``threshold``-th access. O(1).

    The tracker counts accesses of residents and of others alike, whatever becomes of the block, and forgets the block
    whose last access is longest ago when it is full. vLLM counts a request's lookups up to the first miss; here every
    block of the request counts.

    Parameters: ``threshold`` accesses, this one included, from which on a block is admitted; ``tracker_blocks`` most
    blocks counted.

    Source: vLLM 0.32, ``vllm/v1/kv_offload/cpu/manager.py`` (``store_threshold``, ``max_tracker_size`` 64,000).
    """

    name = "two_hit"
    PARAMETERS: ClassVar[dict[str, float]] = {"threshold": 2.0, "tracker_blocks": 64_000.0}
    RANGES: ClassVar[dict[str, Interval]] = {
        "threshold": Interval(1, 14, whole=True),
        "tracker_blocks": Interval(1, 1e9, whole=True),
    }

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._threshold = int(self._params["threshold"])
        self._tracker_blocks = int(self._params["tracker_blocks"])
        self._accesses: OrderedDict[int, int] = OrderedDict()

    def touch(self, access: BlockAccess) -> None:
        self._count(access.block)
        super().touch(access)

    def admits(self, access: BlockAccess) -> bool:
        return self._accesses.get(access.block, 0) + 1 >= self._threshold

    def admits_demoted(self, access: BlockAccess) -> bool:
        return self._accesses.get(access.block, 0) >= self._threshold

    def insert(self, access: BlockAccess) -> None:
        self._count(access.block)
        super().insert(access)

    def demote(self, access: BlockAccess) -> None:
        super().insert(access)

    def refuse(self, access: BlockAccess) -> None:
        self._count(access.block)

    def _count(self, block: int) -> None:
        if block not in self._accesses and len(self._accesses) >= self._tracker_blocks:
            self._accesses.popitem(last=False)
        self._accesses[block] = self._accesses.get(block, 0) + 1
        self._accesses.move_to_end(block)
