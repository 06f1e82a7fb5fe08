"""The rank rule: evict the smallest ``last access + w * f`` among the leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from autotune.core.decide.rank import NS_PER_S, rank_ns, rank_weight_s, value_term_ns
from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.ghosts import Ghosts, Usage
from autotune_policies.keyed import KeyedPolicy
from autotune_policies.parameters import Interval

ADMIT_ALL, ADMIT_MARGINAL, ADMIT_TWO_HIT = range(3)


class RankPolicy(KeyedPolicy):
    """Rank rule with λ, τ, frequency half-life, cost term, ghosts and admission.

    A block that is continued by a resident block does not leave, so tails leave before their prefixes. λ = 1 gives
    w = 0 and decides exactly as LRU, also where a tail comes down from a nearer tier after its prefix was used.

    Parameters: ``lambda_recency`` λ in (0, 1]; ``tau_s`` time scale of the cache; ``half_life_s`` of the frequency, 0
    for no decay; ``cost_weight`` of the log of the seconds at stake; ``ghost_ratio`` ghosts kept per block of capacity;
    ``admission`` 0 all, 1 marginal, 2 two-hit.

    Under marginal admission :meth:`admits` stays true, because a caller that inserts first and evicts afterwards sees
    the block leave in the same round; a caller that must know before it copies asks :meth:`would_admit`.
    """

    name = "rank"
    PARAMETERS: ClassVar[dict[str, float]] = {
        "lambda_recency": 0.5,
        "tau_s": 600.0,
        "half_life_s": 0.0,
        "cost_weight": 0.0,
        "ghost_ratio": 1.0,
        "admission": 0.0,
    }
    RANGES: ClassVar[dict[str, Interval]] = {
        "lambda_recency": Interval(0.0, 1.0, open_low=True),
        "tau_s": Interval(0.0),
        "half_life_s": Interval(0.0),
        "cost_weight": Interval(0.0, 100.0),
        "ghost_ratio": Interval(0.0, 1000.0),
        "admission": Interval(0, 2, whole=True),
    }

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        values = self._params
        self._weight_ns = rank_weight_s(values["lambda_recency"], values["tau_s"]) * NS_PER_S
        self.leaf_only = self._weight_ns > 0.0
        self._half_life_s = values["half_life_s"]
        self._admission = int(values["admission"])
        self.admits_marginally = self._admission == ADMIT_MARGINAL
        self._ghosts = Ghosts(math.ceil(values["ghost_ratio"] * context.capacity_blocks))
        self._terms_ns = [value_term_ns(self._weight_ns, values["cost_weight"], value_s) for value_s in context.value_s]

    def admits(self, access: BlockAccess) -> bool:
        return self._admission != ADMIT_TWO_HIT or access.block in self._ghosts

    def admits_demoted(self, access: BlockAccess) -> bool:
        """Under two-hit admission, a block that comes down must have been used twice, for coming down is no use."""
        known = self._ghosts.get(access.block)
        return self._admission != ADMIT_TWO_HIT or (known is not None and known.frequency > 1.0)

    def would_admit(self, access: BlockAccess, pinned: Callable[[int], bool] = nothing_pinned) -> bool:
        """Whether a missing block, inserted now, would be admitted and not be the next one to leave."""
        if self._admission != ADMIT_MARGINAL or len(self) < self.context.capacity_blocks:
            return self.admits(access)
        # Once the block is resident its parent is no leaf, so the parent is not what it has to outrank.
        rival = self._candidates.smallest(pinned, other_than=access.parent if self.leaf_only else -1)
        if rival < 0:
            return False
        return self.rank_on_arrival(access) >= self._residents[rival].key

    def rank_on_arrival(self, access: BlockAccess) -> int:
        """Rank that a missing block would have if it came in now; changes no state."""
        return self._key(access, self._counted(self._ghosts.get(access.block), access).frequency)

    def next_victim_rank(self, pinned: Callable[[int], bool]) -> int | None:
        """Rank of the block that :meth:`evict` would choose; None if none may leave."""
        victim = self._candidates.smallest(pinned)
        return self._residents[victim].key if victim >= 0 else None

    def demote(self, access: BlockAccess) -> None:
        known = self._ghosts.take(access.block)
        self._settle_in(access, known or Usage(1.0, access.time_ns))

    def refuse(self, access: BlockAccess) -> None:
        self._ghosts.put(access.block, self._counted(self._ghosts.get(access.block), access))

    def _key(self, access: BlockAccess, frequency: float) -> int:
        term_ns = self._terms_ns[min(access.depth_blocks, len(self._terms_ns) - 1)]
        return rank_ns(access.time_ns, self._weight_ns, frequency, term_ns)
