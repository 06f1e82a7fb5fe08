"""vLLM's manager of the host pool, with admission, eviction and reload by the policy.

One mixin holds all of it; two classes put it in front of vLLM's own managers. Everything that vLLM's managers do is
left to them: counting references, allocating chunks, events. Where they ask their cache policy, they reach
:class:`RankCachePolicy`; what is decided before that (admission) is asked of :class:`Offers`, and what goes on beside
it (reload, series) is here.

Whatever our code raises, the request is served: the first fault ends our part for good, is counted and logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.logger import init_logger
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

from autotune.core.clock import monotonic_ns
from autotune.core.learned import RunHistory
from autotune.core.types import Tier
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.changes import SLICE_NS
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.settings import EngineSettings
from autotune_policies.engines.live.source import EngineFacts, PolicyOutcome, PolicySource
from autotune_policies.engines.live.writes import HostWrites
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.device import DeviceRules
from autotune_policies.engines.vllm.facts import PoolFacts
from autotune_policies.engines.vllm.groups import ChunkGroups
from autotune_policies.engines.vllm.hooks import ConnectorHooks
from autotune_policies.engines.vllm.metrics import HostLookup, PolicyCounters
from autotune_policies.engines.vllm.offers import Offers
from autotune_policies.engines.vllm.past import EnginePast
from autotune_policies.engines.vllm.policy import RankCachePolicy
from autotune_policies.engines.vllm.seams import Feature
from autotune_policies.engines.vllm.trail import RequestTrail, by_group
from autotune_policies.engines.vllm.witness import Witness

logger = init_logger("vllm.kv_autotune")

_MAX_REQUESTS = 65_536


class PolicyManager(ConnectorHooks):
    """Obeys a policy file in front of one of vLLM's managers; a mixin.

    Args:
        facts: The engine and its pool.
        settings: What the user set.
        now_ns: Monotonic nanoseconds.
        args: Positional arguments of vLLM's manager.
        named: Named arguments of vLLM's manager.
    """

    _policy: Any

    def __init__(
        self,
        *args: Any,
        facts: PoolFacts,
        settings: EngineSettings,
        now_ns: Callable[[], int] = monotonic_ns,
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self._now_ns = now_ns
        self._trails: dict[str, RequestTrail] = {}
        self.counters = PolicyCounters(
            facts.n_chunks, "" if settings.telemetry is None else settings.telemetry.endpoint
        )
        self.groups = ChunkGroups(
            {group.group_id: group.chunk_tokens for group in facts.groups}, facts.full_attention_groups
        )
        chunk_tokens = min(group.chunk_tokens for group in facts.groups)
        index = HostIndex(facts.n_chunks, chunk_tokens, HostRules.lru())
        index.writes = self._writes = HostWrites(facts.copied_bytes)
        self._policy = self._ordered = RankCachePolicy(facts.n_chunks, index, self.groups, self._on_fault, now_ns)
        self._device_rules: DeviceRules | None = None
        self._past = EnginePast(chunk_tokens, facts.n_chunks)
        self._hears_of_requests = False
        self._source = PolicySource(settings.policy_file, _engine_facts(facts))
        self._witness = Witness(settings, facts, self.counters, now_ns)
        self._free_chunks = compat.free_chunks(self)
        self._offers = Offers(self._ordered, self._writes, self.groups, self.counters, self._witness, self._free_chunks)
        if self._witness.records:
            self._past.keep(index)
        self._hears_of_ends = hasattr(CachePolicy, "on_request_finished")  # from vLLM 0.31 on
        self.follow_policy()
        if self._ordered.index is not None:
            index.finish_swap()

    # The policy file

    @property
    def rules(self) -> HostRules:
        """Rules in force; plain LRU after a fault."""
        index = self._ordered.index
        return HostRules.lru() if index is None else index.rules

    @property
    def device_rules(self) -> DeviceRules | None:
        """Rules in force on the device; ``None`` = the device's own order."""
        return None if self._ordered.index is None else self._device_rules

    @property
    def index(self) -> HostIndex | None:
        """Order of the residents; ``None`` after a fault."""
        return self._ordered.index

    @property
    def past(self) -> RunHistory[bytes] | None:
        """What is remembered of chunks; ``None`` = nothing."""
        return self._past.history

    def follow_policy(self) -> None:
        """Look whether the policy file has changed, and go on with what a change needs; bounded work per call."""
        index = self._ordered.index
        if index is None:
            return
        try:
            now_ns = self._now_ns()
            change = self._source.poll(now_ns)
            if change is not None:
                self._take(index, change, now_ns)
            index.advance_for(SLICE_NS, self._now_ns)
            index.at(now_ns)
        except Exception as fault:
            self._ordered.fall_back("follow_policy", fault)

    def _take(self, index: HostIndex, change: Any, now_ns: int) -> None:
        log = logger.warning if change.outcome.is_trouble else logger.info
        log("kv-autotune: %s", change)
        self.counters.reload_errors += change.outcome is PolicyOutcome.REJECTED
        self.counters.leases_expired += change.outcome is PolicyOutcome.LEASE_EXPIRED
        if change.outcome.changes_rules:
            rules = change.rules
            self.counters.reloads += 1
            self.counters.set_policy(rules.kind, change.policy_hash)
            self._device_rules = None if change.document is None else DeviceRules.of(change.document)
            self._past.follow(rules, None if self._device_rules is None else self._device_rules.ranks, index)
            self._writes.obey(rules.host_write, now_ns, rules.key_scale_ns)
            index.begin_swap(rules, now_ns)

    # What vLLM calls

    def on_new_request(self, req_context: Any) -> Any:
        """A request is first seen."""
        if len(self._trails) < _MAX_REQUESTS:
            self._trails[req_context.req_id] = RequestTrail()
        return super().on_new_request(req_context)  # type: ignore[misc]

    def prepare_load(self, keys: Collection[bytes], req_context: Any) -> Any:
        """Resident chunks are about to be loaded."""
        spec = super().prepare_load(keys, req_context)  # type: ignore[misc]
        if self._ordered.index is not None:
            try:
                self._note_load(self._ordered.index, list(keys), self._trail(req_context))
            except Exception as fault:
                self._ordered.fall_back("prepare_load", fault)
        return spec

    def _note_load(self, index: HostIndex, keys: list[bytes], trail: RequestTrail) -> None:
        counters = self.counters
        if not trail.loaded:
            counters.lookups[HostLookup.HIT] += 1
        counters.lookup_chunks[HostLookup.HIT] += max(0, len(keys) - trail.loaded)
        trail.loaded = max(trail.loaded, len(keys))
        if self._witness.records and Tier.HOST not in trail.known:
            trail.known[Tier.HOST] = self._witness.features(index, keys[0])
        self._witness.load_decided(index, keys, None)
        for suffix, run in by_group(keys):
            trail.tips[suffix] = run[-1], index.residents[run[-1]].depth
        if not self._hears_of_ends:
            trail.used.extend(keys)

    def prepare_store(self, keys: Iterable[bytes], req_context: Any) -> Any:
        """Chunks are offered: those that the policy admits get a place, and victims leave for them."""
        keys = list(keys)
        index = self._ordered.index
        if index is None:
            return super().prepare_store(keys, req_context)  # type: ignore[misc]
        began_ns = self._now_ns()
        trail = self._trail(req_context)
        refused: Sequence[bytes] = ()
        try:
            index.at(began_ns)
            refused = self._offers.refused(index, keys, req_context, trail, began_ns)
        except Exception as fault:
            self._ordered.fall_back("prepare_store", fault)
        out = set(refused)
        admitted = [key for key in keys if key not in out] if out else keys
        if not self._hears_of_ends:
            trail.used.extend(self._not_arriving(admitted))
        output = super().prepare_store(admitted, req_context)  # type: ignore[misc]
        if self._ordered.index is not None:
            try:
                self._offers.settle(index, output, refused, trail, began_ns)
                if output is not None and not self._hears_of_ends:
                    trail.brought.update(output.keys_to_store)
            except Exception as fault:
                self._ordered.fall_back("prepare_store", fault)
        self.counters.observe_decision((self._now_ns() - began_ns) / NS_PER_S)
        return output

    def _not_arriving(self, keys: Sequence[bytes]) -> list[bytes]:
        """What of an offer counts as used, as from vLLM 0.31 on: all but what another request is storing just now."""
        get = self._ordered.get
        return [key for key in keys if (chunk := get(key)) is None or chunk.is_ready]

    def tell_lineage(self, keys: Sequence[bytes], req_context: Any) -> None:
        """Parent and depth of chunks that are about to be inserted without being offered to the policy."""
        if self._ordered.index is None or not keys:
            return
        try:
            self._ordered.lineage = self._offers.lineage(keys, req_context, RequestTrail())
        except Exception as fault:
            self._ordered.fall_back("tell_lineage", fault)

    def on_request_finished(self, req_context: Any) -> None:
        """A request has ended."""
        super().on_request_finished(req_context)  # type: ignore[misc]
        trail = self._trails.pop(req_context.req_id, None)
        if trail is not None and not self._hears_of_ends:
            used = list(dict.fromkeys(trail.used))
            self._ordered.refresh(reversed(used), trail.brought)
        if not self._hears_of_requests and self.rules.learned is not None:
            self._do_without_learning()

    def _do_without_learning(self) -> None:
        """Without our connector nobody tells what a request was like when it has ended."""
        index = self._ordered.index
        if index is not None:
            logger.warning(
                "kv-autotune: a learned policy needs AutotuneConnector in --kv-transfer-config; without it the host is "
                "ordered by LRU"
            )
            index.begin_swap(index.rules.without_learning())
            index.finish_swap()

    def on_schedule_end(self, *context: Any) -> None:
        """A scheduler step ends."""
        super().on_schedule_end(*context)  # type: ignore[misc]
        self.follow_policy()

    def reset_cache(self) -> None:
        """All chunks leave."""
        super().reset_cache()  # type: ignore[misc]
        for trail in self._trails.values():
            trail.used.clear()
            trail.brought.clear()
            trail.tips.clear()
        self._past.clear()
        self._witness.reset()

    def shutdown(self) -> None:
        """The engine stops."""
        super().shutdown()  # type: ignore[misc]
        self._witness.close()

    def get_stats(self) -> Any:
        """Series of vLLM and of ours since the last call."""
        stats = super().get_stats()  # type: ignore[misc]
        if stats is None:
            stats = OffloadingConnectorStats()
        if not compat.is_usable(Feature.METRICS):
            return stats
        index, counters = self._ordered.index, self.counters
        counters.resident_chunks = len(self._ordered)
        self._witness.count_lost()
        if index is not None:
            counters.ghost_entries = len(index.ghosts)
            counters.ghost_hits += index.ghosts.hits
            index.ghosts.hits = 0
        counters.drain(stats)
        return stats

    # Helpers

    def _on_fault(self, during: str, fault: Exception) -> None:
        self.counters.fallbacks += 1
        self.counters.set_policy("lru", "fault")
        logger.error(
            "kv-autotune: a fault in %s; this engine goes on with plain LRU until it is restarted. Requests are served "
            "as before; please report this.",
            during,
            exc_info=fault,
        )


class AutotuneOffloadingManager(PolicyManager, CPUOffloadingManager):
    """The host pool behind the device."""


def _engine_facts(facts: PoolFacts) -> EngineFacts:
    return EngineFacts("vllm", facts.engine_version, (facts.model,), facts.kv_bytes_per_token)
