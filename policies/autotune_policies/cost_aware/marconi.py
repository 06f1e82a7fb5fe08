"""Recency plus what a hit saves per byte, as Marconi ranks prefixes."""

from __future__ import annotations

from typing import ClassVar

from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.keyed import KeyedPolicy
from autotune_policies.parameters import Interval


class MarconiPolicy(KeyedPolicy):
    """Evicts the smallest ``recency + α · FLOP efficiency`` among the leaves. O(log n).

    Both terms lie between 0 and 1. Efficiency is what a hit saves on a block at its depth, since all blocks are of one
    size; the deepest block of the longest prompt counts 1 and the first block 0. Marconi puts recency on that scale by
    the oldest and the newest resident of the moment; here the span between them is a parameter, so that the order of
    two blocks never changes and a heap is exact. Its states of recurrent layers and its admission of branch points have
    no counterpart here: blocks of attention layers can be cut anywhere. α = 0 is LRU over leaves.

    Parameters: ``alpha`` weight of efficiency, which Marconi finds by replaying the recent past; ``span_s`` seconds
    between the oldest and the newest resident.

    Source: Pan et al., "Marconi: Prefix Caching for the Era of Hybrid LLMs", MLSys 2025 (arXiv:2411.19379), section
    4.2, ``S(n) = recency(n) + α · flop_efficiency(n)``.
    """

    name = "marconi"
    leaf_only = True
    PARAMETERS: ClassVar[dict[str, float]] = {"alpha": 1.0, "span_s": 600.0}
    RANGES: ClassVar[dict[str, Interval]] = {"alpha": Interval(0.0, 1000.0), "span_s": Interval(0.0, 1e8)}

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        weight_ns = self._params["alpha"] * self._params["span_s"] * NS_PER_S
        low, high = min(context.value_s), max(context.value_s)
        scale = weight_ns / (high - low) if high > low else 0.0
        self._terms_ns = [round_half_up(scale * (value_s - low)) for value_s in context.value_s]

    def _key(self, access: BlockAccess, frequency: float) -> int:
        return access.time_ns + self._terms_ns[min(access.depth_blocks, len(self._terms_ns) - 1)]
