"""First in, first out: use changes nothing."""

from __future__ import annotations

from autotune.core.eviction import BlockAccess
from autotune_policies.recency.lru import LRUPolicy


class FIFOPolicy(LRUPolicy):
    """Evicts the block that came first. O(1)."""

    name = "fifo"

    def touch(self, access: BlockAccess) -> None:
        """Nothing moves."""

    def renew(self, access: BlockAccess) -> None:
        """Nothing moves."""
