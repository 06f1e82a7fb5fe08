"""W-TinyLFU: a small LRU window, and a main cache that a block enters only if it is asked for more than the victim."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.frequency.sketch import FrequencySketch
from autotune_policies.parameters import Interval, ParameterisedPolicy
from autotune_policies.queues import NOBODY, oldest_idle


class WTinyLFUPolicy(ParameterisedPolicy):
    """Window LRU, segmented main LRU, TinyLFU between them. O(1).

    Insertion precedes eviction in the original too: a new block enters the window; what the window has no room for is
    a candidate for the main cache and duels with the main cache's victim, the older losing a draw.

    libCacheSim's version cannot be matched decision by decision: it sizes and hashes its filter in ways of its own and
    refuses to cache below 100 blocks. This one follows the paper and Caffeine, without Caffeine's random tie-break.

    Parameters: ``window_frac`` share of the window; ``protected_frac`` share of the main cache for blocks used there;
    ``sample_factor`` accesses per block of capacity between two halvings of the counts.

    Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS 13(4), 2017.
    """

    name = "wtinylfu"
    PARAMETERS: ClassVar[dict[str, float]] = {"window_frac": 0.01, "protected_frac": 0.8, "sample_factor": 10.0}
    RANGES: ClassVar[dict[str, Interval]] = {
        "window_frac": Interval(0.0, 1.0),
        "protected_frac": Interval(0.0, 1.0),
        "sample_factor": Interval(1.0, 1000.0),
    }

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        capacity_blocks = context.capacity_blocks
        self._window_blocks = max(1, int(capacity_blocks * self._params["window_frac"]))
        self._main_blocks = capacity_blocks - self._window_blocks
        self._protected_blocks = int(self._main_blocks * self._params["protected_frac"])
        self._window: OrderedDict[int, None] = OrderedDict()
        self._probation: OrderedDict[int, None] = OrderedDict()
        self._protected: OrderedDict[int, None] = OrderedDict()
        period = max(1, int(capacity_blocks * self._params["sample_factor"]))
        self._sketch = FrequencySketch(capacity_blocks, period)

    def __len__(self) -> int:
        return len(self._window) + len(self._probation) + len(self._protected)

    def __contains__(self, block: object) -> bool:
        return block in self._window or block in self._probation or block in self._protected

    def touch(self, access: BlockAccess) -> None:
        self._sketch.add(access.block)
        self._use(access.block)

    def renew(self, access: BlockAccess) -> None:
        for queue in (self._window, self._probation, self._protected):
            if access.block in queue:
                queue.move_to_end(access.block)

    def _use(self, block: int) -> None:
        if block in self._window:
            self._window.move_to_end(block)
        elif block in self._protected:
            self._protected.move_to_end(block)
        else:
            del self._probation[block]
            self._protect(block)

    def insert(self, access: BlockAccess) -> None:
        self._sketch.add(access.block)
        self._window[access.block] = None

    def demote(self, access: BlockAccess) -> None:
        self._window[access.block] = None

    def refuse(self, access: BlockAccess) -> None:
        self._sketch.add(access.block)

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        self._fill_main()
        victim = oldest_idle(self._probation, pinned)
        if victim < 0:
            victim = oldest_idle(self._protected, pinned)
        candidate = oldest_idle(self._window, pinned) if len(self._window) > self._window_blocks else NOBODY
        if candidate >= 0 and victim >= 0:
            return self._duel(candidate, victim)
        leaver = candidate if candidate >= 0 else victim
        if leaver < 0:
            leaver = oldest_idle(self._window, pinned)
        if leaver >= 0:
            self.remove(leaver)
        return leaver

    def remove(self, block: int) -> None:
        for queue in (self._window, self._probation, self._protected):
            if block in queue:
                del queue[block]
                return

    def _fill_main(self) -> None:
        """What the window has no room for goes to the main cache unchallenged while there is room."""
        while len(self._window) > self._window_blocks and len(self) - len(self._window) < self._main_blocks:
            block, _ = self._window.popitem(last=False)
            self._probation[block] = None

    def _duel(self, candidate: int, victim: int) -> int:
        if self._sketch.estimate(candidate) <= self._sketch.estimate(victim):
            del self._window[candidate]
            return candidate
        self.remove(victim)
        del self._window[candidate]
        self._probation[candidate] = None
        return victim

    def _protect(self, block: int) -> None:
        self._protected[block] = None
        while len(self._protected) > self._protected_blocks:
            demoted, _ = self._protected.popitem(last=False)
            self._probation[demoted] = None
