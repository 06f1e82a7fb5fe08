"""What the policy makes of the chunks that vLLM offers to the host: where they stand, and which of them stay out.

Asked before vLLM's manager hands out places, and told afterwards what it did. A chunk that is refused is so for the
rest of its request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune.core.types import Admission, Tier
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.writes import HostWrites
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.groups import ChunkGroups
from autotune_policies.engines.vllm.metrics import HostLookup, PolicyCounters, RefusalReason
from autotune_policies.engines.vllm.policy import Lineage, RankCachePolicy
from autotune_policies.engines.vllm.trail import RequestTrail, by_group
from autotune_policies.engines.vllm.witness import Witness


class Offers:
    """Decides about offers, one after the other.

    Args:
        ordered: The cache policy, which is told where the offered chunks stand.
        writes: The write budget.
        groups: Groups of layers that keys belong to.
        counters: Where lookups and refusals are counted.
        witness: Told of every decision.
        free_chunks: How many places are free.
    """

    def __init__(
        self,
        ordered: RankCachePolicy,
        writes: HostWrites,
        groups: ChunkGroups,
        counters: PolicyCounters,
        witness: Witness,
        free_chunks: Callable[[], int],
    ) -> None:
        self._ordered = ordered
        self._writes = writes
        self._groups = groups
        self._counters = counters
        self._witness = witness
        self._free_chunks = free_chunks

    def refused(
        self, index: HostIndex, keys: Sequence[bytes], req_context: Any, trail: RequestTrail, now_ns: int
    ) -> Sequence[bytes]:
        """What of an offer the policy refuses; parents and depths of the rest are told to the cache policy.

        An offer may be repeated. What the request was refused before stays refused, for its own asking proves nothing.
        Nor is what a write budget saved up since for chunks behind that gap, which could never be loaded.
        """
        residents = index.residents
        missing = [key for key in keys if key not in residents]
        lineage = self.lineage(keys, req_context, trail)
        if not missing:
            return ()
        self._note_known(index, keys, missing, trail)
        self._ordered.lineage, self._ordered.is_use = lineage, not trail.is_idle
        index.protected_parent = lineage[missing[0]][0] if index.rules.leaf_only else None
        if index.rules.admission is Admission.ALL and not self._writes.are_limited:
            return ()
        if self._writes.are_limited and self._follows_refused(index, missing[0], trail):
            return self._writes.refuse(missing)
        n_open = next((i for i, key in enumerate(missing) if key in trail.refused), len(missing))
        candidates = [(key, lineage[key][1]) for key in missing[:n_open]]
        return missing[index.admit(candidates, self._free_chunks(), set(keys), now_ns, not trail.is_idle) :]

    def settle(self, index: HostIndex, output: Any, refused: Sequence[bytes], trail: RequestTrail, now_ns: int) -> None:
        """Take note of the places that vLLM's manager has handed out.

        Args:
            index: Order of the residents.
            output: Its answer; ``None`` = there was not room for all of what was admitted.
            refused: What the policy refused.
            trail: Of the request.
            now_ns: When it was offered.
        """
        index.unstage()
        index.protected_parent = None
        self._ordered.is_use = True
        counters = self._counters
        if output is None:
            counters.refusals[RefusalReason.NO_ROOM] += 1
            return
        self._writes.wrote(len(output.keys_to_store), now_ns)
        counters.admissions += len(output.keys_to_store)
        counters.evictions += len(output.evicted_keys)
        self._witness.offered(index, output.keys_to_store, output.evicted_keys, refused)
        new = [key for key in reversed(refused) if key not in trail.refused]
        if new:
            counters.refusals[self._why_refused(index, new[-1], trail)] += 1
            counters.refusals[RefusalReason.PREFIX_REFUSED] += len(new) - 1
            trail.refused.update(new)
            if not trail.is_idle:
                index.refuse(new, now_ns)

    def lineage(self, keys: Sequence[bytes], req_context: Any, trail: RequestTrail) -> Lineage:
        """Parent and depth of every offered chunk. Within a group an offer is in prefix order."""
        lineage: Lineage = {}
        for suffix, run in by_group(keys):
            tip, tip_depth = trail.tips.get(suffix, (None, -1))
            depth = self._depth_of_first(run[0], suffix, req_context, trail, tip_depth)
            parent = tip if tip_depth == depth - 1 else None
            is_chained = self._groups.is_chained(run[0])
            for depth, key in enumerate(run, depth):  # noqa: B020  the first depth is where the run begins
                lineage[key] = (parent if is_chained else None), depth
                parent = key
            if depth > tip_depth:
                trail.tips[suffix] = run[-1], depth
        return lineage

    def _depth_of_first(self, key: bytes, suffix: bytes, req_context: Any, trail: RequestTrail, tip_depth: int) -> int:
        """Depth of an offer's first chunk: as the engine tells, else after what the request has shown before."""
        end_tokens = compat.key_position(req_context, key)
        if end_tokens is not None:
            return end_tokens // self._groups.chunk_tokens[suffix] - 1
        return trail.starts.setdefault(key, tip_depth + 1)

    def _note_known(
        self, index: HostIndex, keys: Sequence[bytes], missing: Sequence[bytes], trail: RequestTrail
    ) -> None:
        """What is known of the offered runs before anything is decided, and how many chunks the host lacked."""
        if self._witness.records:
            if None not in trail.known:
                trail.known[None] = self._witness.features(index, missing[0])
            if keys[0] is not missing[0] and Tier.DEVICE not in trail.known:
                trail.known[Tier.DEVICE] = self._witness.features(index, keys[0])
        if trail.is_idle:
            return
        if not trail.loaded and not trail.missed:
            self._counters.lookups[HostLookup.MISS] += 1
        self._counters.lookup_chunks[HostLookup.MISS] += max(0, len(missing) - trail.missed)
        trail.missed = max(trail.missed, len(missing))

    def _follows_refused(self, index: HostIndex, key: bytes, trail: RequestTrail) -> bool:
        """Whether the chunk before this one was refused to the same request and has not come in since."""
        parent, _ = self._ordered.lineage.get(key, (None, 0))
        return parent in trail.refused and parent not in index.residents

    def _why_refused(self, index: HostIndex, key: bytes, trail: RequestTrail) -> RefusalReason:
        if self._writes.refused:
            is_rest = self._follows_refused(index, key, trail)
            return RefusalReason.PREFIX_REFUSED if is_rest else RefusalReason.OVER_BUDGET
        return RefusalReason.FIRST_SIGHT if index.rules.admission is Admission.TWO_HIT else RefusalReason.BELOW_VICTIM
