"""The clairvoyant bound on hits: farthest next use."""

from __future__ import annotations

from autotune.core.decide.keys import next_use_key
from autotune.core.eviction import BlockAccess
from autotune_policies.keyed import KeyedPolicy


class ClairvoyantPolicy(KeyedPolicy):
    """Evicts the block whose next use is farthest away; blocks never used again go first. O(log n).

    Among equals the one reported first goes, and that is the deepest: a prefix outlives what continues it.

    Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966.
    """

    name = "clairvoyant"
    leaf_only = True

    def _key(self, access: BlockAccess, frequency: float) -> int:
        return next_use_key(access.next_use)
