"""A clairvoyant that goes for seconds rather than hits."""

from __future__ import annotations

from autotune.core.decide.keys import seconds_density_key
from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.eviction import BlockAccess, TierContext
from autotune_policies.keyed import KeyedPolicy


class ClairvoyantSecondsPolicy(KeyedPolicy):
    """Evicts the smallest ``seconds saved by the next hit / requests until then``. O(log n).

    The wait is counted in requests from the block's last access. This is a greedy heuristic, not a proven bound: the
    best schedule for weighted blocks is a flow problem over the whole trace. It is the best in seconds that the
    clairvoyant policies here reach.
    """

    name = "clairvoyant_seconds"
    leaf_only = True

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._values_ns = [round_half_up(value_s * NS_PER_S) for value_s in context.value_s]

    def _key(self, access: BlockAccess, frequency: float) -> int:
        value_ns = self._values_ns[min(access.depth_blocks, len(self._values_ns) - 1)]
        return seconds_density_key(value_ns, access.request, access.next_use)
