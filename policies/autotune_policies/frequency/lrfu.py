"""LRFU: every past use counts, the less the longer ago."""

from __future__ import annotations

from typing import ClassVar

from autotune.core.decide.rank import NS_PER_S, rank_ns
from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.keyed import KeyedPolicy
from autotune_policies.parameters import Interval


class LRFUPolicy(KeyedPolicy):
    """Evicts the smallest combined recency and frequency C. O(log n).

    C sums ``(1/2) ** (age / half_life)`` over all uses. Since all C fade alike, ``last use + half_life * log2(C)``
    orders the blocks the same way at any time; that is the key, and it is the rank rule with w = half-life. A short
    half-life is LRU, a long one LFU. Nothing is remembered of blocks that left.

    Parameters: ``half_life_s`` in which the weight of a use halves.

    Source: Lee et al., "LRFU: A Spectrum of Policies that Subsumes the Least Recently Used and Least Frequently Used
    Policies", IEEE Transactions on Computers 50(12), 2001.
    """

    name = "lrfu"
    PARAMETERS: ClassVar[dict[str, float]] = {"half_life_s": 600.0}
    RANGES: ClassVar[dict[str, Interval]] = {"half_life_s": Interval(0.0, 1e9, open_low=True)}

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._half_life_s = self._params["half_life_s"]
        self._weight_ns = self._half_life_s * NS_PER_S

    def _key(self, access: BlockAccess, frequency: float) -> int:
        return rank_ns(access.time_ns, self._weight_ns, frequency, 0)
