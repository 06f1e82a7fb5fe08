"""Device keep: who leaves the device first is decided by rank instead of by the order in which blocks became idle.

vLLM takes new blocks from the head of its free queue: blocks without content first, then the idle cached block that was
used longest ago. Between scheduler steps, the blocks with the smallest ranks are moved to the head, behind those that
have no content. Nothing of the engine is replaced: every block stays in the queue and counts as free, an allocation
takes whatever is at the head, and a step that takes more blocks than were moved goes on in the queue's own order. If
our code fails, it stops moving blocks, and the queue is what it has always been.

A block that outranks those behind it is moved to the tail when it surfaces, so that the head never consists of blocks
that are kept, and blocks that have no rank, such as those of preempted requests, surface too.

Source: vLLM 0.24 to 0.33, v1/core/block_pool.py (get_new_blocks, free_blocks, touch), v1/core/kv_cache_utils.py
(FreeKVCacheBlockQueue).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.core.clock import monotonic_ns
from autotune.core.learned import Run, RunHistory
from autotune.core.policy import PolicyDocument
from autotune.core.types import Tier
from autotune_policies.engines.live.changes import SLICE_NS
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules, learned_rules
from autotune_policies.engines.vllm.layout import Layout, LayoutGroup, cached_key

_MOVES_PER_HEAD = 4
_ROUNDS = 4  # blocks in use and blocks that are gone are passed over, so one round may not yield enough


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """Rules of the device tier.

    Attributes:
        ranks: How idle blocks are ranked.
        keep_frac: Share of the pool that may hold blocks out of the queue's order, above 0 and up to 1.
    """

    ranks: HostRules
    keep_frac: float = 1.0

    @classmethod
    def of(cls, document: PolicyDocument, keep_frac: float = 1.0) -> DeviceRules | None:
        """The rules of a document's device tier; ``None`` where that is left to the engine.

        Under a learned rule a block counts by the seconds that a hit on the host would save, as it does there.
        """
        learned = learned_rules(document, Tier.DEVICE)
        if learned is not None:
            ranks = HostRules(kind=document.kind, learned=learned, costs=document.costs.profile())
            return cls(ranks, keep_frac)
        knobs = document.rank.of(Tier.DEVICE) if document.rank else None
        if document.tiers.device.policy != "rank" or knobs is None:
            return None
        costs = document.costs.profile()
        return cls(
            HostRules(
                kind=document.kind,
                weight_ns=knobs.weight_ns,
                half_life_s=knobs.half_life_s,
                cost_weight=knobs.cost_weight,
                # Blocks in use are forgotten and come back when their request ends: their counts must outlive that.
                ghost_ratio=max(1.0, knobs.ghost_ratio),
                # On the device a hit saves the whole recompute; there is nothing to load.
                costs=replace(costs, load_bytes_per_s=math.inf),
            ),
            keep_frac,
        )


class DeviceKeep:
    """Keeps the head of the free queue in the order of ranks.

    Args:
        pool: The device's block pool.
        rules: The rules in force.
        layout: How the engine cuts its KV.
        ahead_blocks: How many blocks at the head are kept in order: more than one step takes.
        now_ns: Monotonic nanoseconds.
        past: What is remembered of chunks, for a learned rule.
    """

    def __init__(
        self,
        pool: Any,
        rules: DeviceRules,
        layout: Layout,
        ahead_blocks: int,
        now_ns: Callable[[], int] = monotonic_ns,
        past: RunHistory[bytes] | None = None,
    ) -> None:
        self._pool = pool
        self._block_tokens = min(group.block_tokens for group in layout.groups)
        self._groups = {group.group_id: group for group in layout.groups}
        self._ahead_blocks = ahead_blocks
        self._now_ns = now_ns
        self._block_of: dict[bytes, int] = {}
        self._spare: list[int] = []
        self._taken_blocks = 0
        self._blocks_per_chunk = layout.blocks_per_chunk
        self._index: HostIndex | None = None
        self.obey(rules, past)

    @property
    def is_on(self) -> bool:
        """Whether blocks are moved."""
        return self._index is not None

    def obey(self, rules: DeviceRules | None, past: RunHistory[bytes] | None = None) -> None:
        """Other rules, or ``None``: the queue's own order from now on.

        What was learnt of the blocks is dropped, unless one learned rule follows another.

        Args:
            rules: The rules.
            past: What is remembered of chunks, for a learned rule.
        """
        index = self._index
        if rules and index and rules.ranks.learned and index.rules.learned and index.past is past:
            index.begin_swap(rules.ranks, self._now_ns())
            return
        self._block_of.clear()
        self._spare.clear()
        if rules is None:
            self._index = None
            return
        capacity = max(1, int(rules.keep_frac * self._pool.num_gpu_blocks))
        self._index = HostIndex(capacity, self._block_tokens, rules.ranks)
        self._index.past = past if rules.ranks.learned else None
        if past is not None:  # the order under a learned rule has to know it from the start
            self._index.begin_swap(rules.ranks, self._now_ns())
            self._index.finish_swap()

    def note_finished(self, block_ids_by_group: Mapping[int, Sequence[int]]) -> None:
        """A request ended: all its cached blocks were used once more; the deepest one is the first to go.

        Args:
            block_ids_by_group: Block ids of the request in order, by KV-cache group; 0 stands for no block.
        """
        if self._index is None:
            return
        now_ns = self._now_ns()
        for group_id, block_ids in block_ids_by_group.items():
            self._note_group(self._index, self._groups[group_id], block_ids, now_ns)

    def _note_group(self, index: HostIndex, group: LayoutGroup, block_ids: Sequence[int], now_ns: int) -> None:
        used: list[bytes] = []
        brought: set[bytes] = set()
        parent: bytes | None = None
        for depth, block_id in enumerate(block_ids):
            key = cached_key(self._pool.blocks[block_id], (depth + 1) * group.block_tokens)
            if key is not None:
                used.append(key)
                if key not in index.residents:
                    index.insert(key, parent if group.full_attention else None, depth, now_ns)
                    brought.add(key)
                self._place(key, block_id)
            parent = key
        index.refresh(reversed(used), brought, now_ns, self._runs(index.past, group, block_ids))
        for key in brought:
            index.release(key)

    def _runs(
        self, past: RunHistory[bytes] | None, group: LayoutGroup, block_ids: Sequence[int]
    ) -> Mapping[bytes, Run] | None:
        """The runs of blocks, where chunks consist of several: a block stands in the run of its chunk."""
        per_chunk = self._blocks_per_chunk
        if past is None or per_chunk == 1:
            return None
        runs: dict[bytes, Run] = {}
        keys = [
            cached_key(self._pool.blocks[block_id], (depth + 1) * group.block_tokens)
            for depth, block_id in enumerate(block_ids)
        ]
        for start in range(0, len(keys) - per_chunk + 1, per_chunk):
            chunk = keys[start + per_chunk - 1]
            run = None if chunk is None else past.run_of(chunk)
            if run is not None:
                runs.update((key, run) for key in keys[start : start + per_chunk] if key is not None)
        return runs

    def _place(self, key: bytes, block_id: int) -> None:
        """Remember which block holds a key. vLLM keeps equal blocks side by side; all but one are spare."""
        known = self._block_of.get(key)
        if known is not None and known != block_id and self._pool.blocks[known].block_hash == key:
            self._spare.append(block_id)
        else:
            self._block_of[key] = block_id

    def stage(self, taken_blocks: int) -> None:
        """Put the next victims at the head of the free queue.

        Args:
            taken_blocks: Blocks that left the queue since the last call; more than there were does no harm.
        """
        self._taken_blocks += taken_blocks
        index = self._index
        if index is not None:
            self._go_on(index)
        if index is None or (
            _MOVES_PER_HEAD * self._taken_blocks < self._ahead_blocks and len(index) <= index.capacity
        ):
            return
        self._taken_blocks = 0
        queue = self._pool.free_block_queue
        n_settled = self._clear_head(index, queue)
        victims = [block for block in map(self._idle_spare, self._drain_spare()) if block is not None]
        for _ in range(_ROUNDS):
            wanted = max(self._ahead_blocks - n_settled - len(victims), len(index) - index.capacity)
            chosen = _up_to(index, wanted)
            if not chosen:
                break
            victims += [block for block in map(self._idle_block, chosen) if block is not None]
        self._insert(queue, n_settled, victims)

    def _go_on(self, index: HostIndex) -> None:
        """Time has gone on, and a slice of what is being prepared is due."""
        index.advance_for(SLICE_NS, self._now_ns)
        index.at(self._now_ns())

    def _clear_head(self, index: HostIndex, queue: Any) -> int:
        """Move ranked blocks from the head to the tail; returns how many blocks without a rank now lead the queue."""
        n_settled = n_moved = 0
        tail = queue.fake_free_list_tail
        block = queue.fake_free_list_head.next_free_block
        while block is not tail and n_settled < self._ahead_blocks:
            following = block.next_free_block
            if self._is_ranked(index, block):
                if n_moved == self._ahead_blocks:
                    break
                queue.remove(block)
                queue.append(block)
                n_moved += 1
            else:
                n_settled += 1
            block = following
        return n_settled

    def _is_ranked(self, index: HostIndex, block: Any) -> bool:
        key = block.block_hash
        return key is not None and key in index.residents and self._block_of.get(key) == block.block_id

    def _idle_block(self, key: bytes) -> Any | None:
        """The block of a victim, unless it is in use or holds something else by now."""
        block_id = self._block_of.pop(key, None)
        if block_id is None:
            return None
        block = self._pool.blocks[block_id]
        return block if block.ref_cnt == 0 and block.block_hash == key else None

    def _drain_spare(self) -> list[int]:
        spare, self._spare = self._spare, []
        return list(dict.fromkeys(spare))

    def _idle_spare(self, block_id: int) -> Any | None:
        block = self._pool.blocks[block_id]
        key = block.block_hash
        is_spare = key is not None and self._block_of.get(key, block_id) != block_id
        return block if block.ref_cnt == 0 and is_spare else None

    @staticmethod
    def _insert(queue: Any, n_settled: int, victims: Sequence[Any]) -> None:
        """Put victims behind the first ``n_settled`` blocks of the queue; whatever fails, no block is lost."""
        leading = queue.popleft_n(n_settled)
        removed: list[Any] = []
        try:
            led = {block.block_id for block in leading}
            for block in victims:
                if block.block_id not in led:
                    queue.remove(block)
                    removed.append(block)
        finally:
            queue.prepend_n(removed)
            queue.prepend_n(leading)


def _up_to(index: HostIndex, wanted: int) -> list[bytes]:
    """The next victims, up to so many; the index gives exactly as many as it is asked for or none."""
    wanted = min(wanted, len(index))
    while wanted > 0:
        chosen = index.evict(wanted, ())
        if chosen is not None:
            return chosen
        wanted //= 2
    return []
