"""GDSF: frequency times cost, aged by what had to leave."""

from __future__ import annotations

from autotune.core.decide.keys import gdsf_key
from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.keyed import KeyedPolicy


class GDSFPolicy(KeyedPolicy):
    """Evicts the smallest ``L + uses * seconds saved by a hit``; L is the key of the last victim. O(log n).

    Blocks are of one size, so the size in the paper's formula is a constant. A block's uses count from when it became
    resident. New blocks compete like all others, so one may leave in the round that brought it.

    Source: Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy",
    HPL-98-69R1, 1998.
    """

    name = "gdsf"

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._values_ns = [round_half_up(value_s * NS_PER_S) for value_s in context.value_s]
        self._inflation = 0

    def _key(self, access: BlockAccess, frequency: float) -> int:
        value_ns = self._values_ns[min(access.depth_blocks, len(self._values_ns) - 1)]
        return gdsf_key(self._inflation, frequency, value_ns)

    def _on_evict(self, key: int) -> None:
        self._inflation = key
