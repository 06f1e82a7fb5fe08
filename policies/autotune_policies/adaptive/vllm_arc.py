"""ARC as vLLM's host manager has it, to predict an engine that runs with ``eviction_policy: arc``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.parameters import ParameterisedPolicy
from autotune_policies.queues import oldest_idle


class VLLMARCPolicy(ParameterisedPolicy):
    """vLLM's ARC, for the simulator's vllm mode. O(1).

    vLLM's names: ``_once`` t1, ``_often`` t2, ``_once_ghosts`` b1, ``_often_ghosts`` b2, ``_target_blocks``
    target_t1_size. It differs from the paper's, which is registered as ``arc``:

    - All misses of a request move the target before the first eviction, the deepest block first.
    - A block that comes back from a ghost list joins the blocks used once, not those used often.
    - The blocks used once give the victim as soon as they reach the target (rounded down); the paper spares them there
      unless the block comes from the ghosts of those used often.
    - Each ghost list holds as many blocks as the cache; the paper bounds the lists together.
    - A block becomes one used often when a request finds it, at the end of that request.

    A caller that does not announce misses, as the canonical mode, moves the target at each insertion instead.

    Source: vLLM 0.32, ``vllm/v1/kv_offload/cpu/policies/arc.py``.
    """

    name = "vllm_arc"

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._once: OrderedDict[int, None] = OrderedDict()
        self._often: OrderedDict[int, None] = OrderedDict()
        self._once_ghosts: OrderedDict[int, None] = OrderedDict()
        self._often_ghosts: OrderedDict[int, None] = OrderedDict()
        self._target_blocks = 0.0
        self._announced: set[int] = set()

    def __len__(self) -> int:
        return len(self._once) + len(self._often)

    def __contains__(self, block: object) -> bool:
        return block in self._once or block in self._often

    def touch(self, access: BlockAccess) -> None:
        self._once.pop(access.block, None)
        self._often[access.block] = None
        self._often.move_to_end(access.block)

    def renew(self, access: BlockAccess) -> None:
        queue = self._once if access.block in self._once else self._often
        queue.move_to_end(access.block)

    def on_store_miss(self, accesses: Sequence[BlockAccess]) -> None:
        self._announced = {access.block for access in accesses}
        for access in reversed(accesses):
            self._learn(access.block)

    def insert(self, access: BlockAccess) -> None:
        if access.block not in self._announced:
            self._learn(access.block)
        self._once_ghosts.pop(access.block, None)
        self._often_ghosts.pop(access.block, None)
        self._once[access.block] = None

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        once, often = (self._once, self._once_ghosts), (self._often, self._often_ghosts)
        order = (once, often) if len(self._once) >= int(self._target_blocks) else (often, once)
        for queue, ghosts in order:
            victim = oldest_idle(queue, pinned)
            if victim >= 0:
                del queue[victim]
                self._remember(victim, ghosts)
                return victim
        return -1

    def remove(self, block: int) -> None:
        queue = self._once if block in self._once else self._often
        del queue[block]

    def _learn(self, block: int) -> None:
        """A miss on a ghost moves the target towards the list that the block left, and makes it the newest ghost."""
        n_once, n_often = len(self._once_ghosts), len(self._often_ghosts)
        if block in self._once_ghosts:
            grown = self._target_blocks + max(1, n_often / n_once)
            self._target_blocks = min(grown, self.context.capacity_blocks)
            self._once_ghosts.move_to_end(block)
        elif block in self._often_ghosts:
            self._target_blocks = max(self._target_blocks - max(1, n_once / n_often), 0)
            self._often_ghosts.move_to_end(block)

    def _remember(self, block: int, ghosts: OrderedDict[int, None]) -> None:
        ghosts[block] = None
        if len(ghosts) > self.context.capacity_blocks:
            ghosts.popitem(last=False)
