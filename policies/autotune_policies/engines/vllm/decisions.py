"""What the connector decides in the scheduler's process, apart from vLLM's own class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vllm.logger import init_logger

from autotune.core.clock import monotonic_ns
from autotune.core.errors import ConfigError
from autotune.core.types import StoreMode
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.device import DeviceKeep, DeviceRules
from autotune_policies.engines.vllm.features import FinishedRequest, TransferReport, finished_request
from autotune_policies.engines.vllm.layout import Layout, LayoutGroup
from autotune_policies.engines.vllm.lazy import LazyLimits, LazyStore
from autotune_policies.engines.vllm.link import LinkEstimate, LinkSpeed, refusal
from autotune_policies.engines.vllm.metrics import LoadRefusal, PolicyCounters
from autotune_policies.engines.vllm.prefills import PrefillTimes
from autotune_policies.engines.vllm.seams import Feature

_log = init_logger("vllm.kv_autotune")
_NO_LIMIT_TOKENS = 2**62


class SchedulerPart:
    """Decisions of one engine's connector.

    Args:
        side: vLLM's ``OffloadingConnectorScheduler``.
        vllm_config: vLLM's configuration.
    """

    def __init__(self, side: Any, vllm_config: Any) -> None:
        scheduler = vllm_config.scheduler_config
        self._side = side
        self._layout = Layout.of(side.config)
        self._step_blocks = self._layout.step_blocks(scheduler.max_num_batched_tokens, scheduler.max_num_seqs)
        self._rules = HostRules.lru()
        self._device_rules: DeviceRules | None = None
        self._pool: Any = None
        self._link = LinkEstimate()
        self._refused: set[str] = set()
        self._lazy: LazyStore | None = None
        self._stores_lazily = False
        self._device: DeviceKeep | None = None
        # Under tiering the policy sits in the host pool that vLLM's manager has in front of its slower tiers.
        self._manager = getattr(side.manager, "primary_tier", side.manager)
        self._found: dict[str, tuple[int, int, int]] = {}
        self._told_bad_hints = False
        self._prefills = PrefillTimes()
        self.counters: PolicyCounters = getattr(self._manager, "counters", None) or PolicyCounters()
        self._tell("note_full_attention", [group.group_id for group in self._layout.groups if group.full_attention])

    @property
    def lazy_pending(self) -> bool:
        """Whether lazy copies are in flight."""
        return self._lazy is not None and self._lazy.pending

    @property
    def stores_lazily(self) -> bool:
        """Whether the lazy store is in force."""
        return self._stores_lazily

    def bind_pool(self, pool: Any) -> None:
        """The device's block pool."""
        self._pool = pool
        held = getattr(pool, "cached_block_hash_to_block", None)
        find = getattr(held, "get_one_block", None)
        self._tell("note_device", pool.num_gpu_blocks // self._layout.blocks_per_chunk, find)
        self.follow_policy()

    # The policy in force

    def follow_policy(self) -> None:
        """Obey the rules that the manager has in force now."""
        manager = self._manager
        rules = getattr(manager, "rules", None)
        if rules is not None and rules is not self._rules and rules != self._rules:
            self._rules = rules
            self._choose_store_mode()
        device_rules = getattr(manager, "device_rules", None)
        if device_rules is not self._device_rules and self._pool is not None:
            self._device_rules = device_rules
            self._choose_device_order()

    def _choose_store_mode(self) -> None:
        if self._pool is None:
            return
        wanted = self._rules.store_mode is not StoreMode.EAGER
        if wanted and self._lazy is None and _is_on(Feature.LAZY_STORE):
            limits = LazyLimits.of(self._step_blocks, self._pool.num_gpu_blocks)
            try:
                self._lazy = LazyStore(self._side, self._pool, self._layout, limits)
            except ConfigError as error:
                _log.warning("kv-autotune: %s", error)
        lazily = wanted and self._lazy is not None
        if lazily and self._rules.store_mode is StoreMode.EXCLUSIVE:
            _log.warning("kv-autotune: store_mode exclusive is obeyed as lazy: a loaded chunk stays on the host")
        if lazily != self._stores_lazily:
            self._stores_lazily = lazily
            for status in self._side._req_status.values():
                self._limit_eager_stores(status)

    def _limit_eager_stores(self, status: Any) -> None:
        """Under a lazy store the engine's own stores of a request end at token 0; otherwise where the client asked."""
        status.max_offload_tokens = 0 if self._stores_lazily else _asked_limit(status.req)

    def _choose_device_order(self) -> None:
        past = getattr(self._manager, "past", None)
        if self._device is not None:
            self._device.obey(self._device_rules, past)
        elif self._device_rules is not None and _is_on(Feature.DEVICE_KEEP):
            self._device = DeviceKeep(self._pool, self._device_rules, self._layout, 2 * self._step_blocks, past=past)

    # Requests

    def on_new_request(self, request: Any) -> None:
        """A request was added."""
        if self._stores_lazily:
            self._limit_eager_stores(self._side._req_status[request.request_id])

    def request_finished(self, request: Any, block_ids: tuple[list[int], ...]) -> None:
        """A request has ended."""
        self._refused.discard(request.request_id)
        ended = self._what_it_did(request)
        if ended.hints.ignored and not self._told_bad_hints:
            self._told_bad_hints = True
            _log.warning(
                "kv-autotune: hints that cannot be used are ignored (%s); see docs/hints.md. This is said once.",
                ", ".join(ended.hints.ignored),
            )
        self._tell("note_ended", request.request_id, ended)
        blocks = self._blocks_of(request, block_ids)
        if self._stores_lazily and self._lazy is not None:
            self._lazy.note_finished(blocks, self._storable_tokens(request))
        if self._device is not None:
            self._device.note_finished(blocks)

    def _blocks_of(self, request: Any, block_ids: tuple[list[int], ...]) -> dict[int, Sequence[int]]:
        """Block ids in order by group; of windowed groups also those that slid out, as far as nobody else has them."""
        status = self._side._req_status.get(request.request_id)
        blocks: dict[int, Sequence[int]] = {}
        for place, group in enumerate(self._layout.groups):
            has_all = group.full_attention or status is None
            blocks[group.group_id] = block_ids[group.group_id] if has_all else status.group_states[place].block_ids
        return blocks

    def _storable_tokens(self, request: Any) -> int:
        asked = _asked_limit(request)
        limit = _NO_LIMIT_TOKENS if asked is None else asked
        return min(limit, request.num_prompt_tokens) if self._layout.prompt_only else limit

    def note_lookup(self, request: Any, computed_tokens: int, loaded_tokens: int) -> None:
        """What a request found when it was first scheduled; after a preemption it finds its own blocks."""
        self._found.setdefault(request.request_id, (computed_tokens, loaded_tokens, monotonic_ns()))

    def _what_it_did(self, request: Any) -> FinishedRequest:
        group, place = self._first_full_attention()
        status = self._side._req_status.get(request.request_id)
        keys = [] if status is None else status.group_states[place].offload_keys
        computed, loaded, start_ns = self._found.pop(request.request_id, (0, 0, 0))
        n_keys = request.num_prompt_tokens // group.chunk_tokens
        on_device = computed // group.chunk_tokens
        on_host = (computed + loaded) // group.chunk_tokens - on_device
        prefill_s = self._prefills.take(request)
        return finished_request(request, keys[:n_keys], on_device, on_host, prefill_s, start_ns, keys[n_keys:])

    def _request_of(self, req_id: str) -> Any:
        status = self._side._req_status.get(req_id)
        return None if status is None else status.req

    def _first_full_attention(self) -> tuple[LayoutGroup, int]:
        """The group whose chunks stand for a request, and its place; a model without full attention has any."""
        for place, group in enumerate(self._layout.groups):
            if group.full_attention:
                return group, place
        return self._layout.groups[0], 0

    def _tell(self, hook: str, *what: Any) -> None:
        note = getattr(self._manager, hook, None)
        if note is not None:
            note(*what)

    # Load or recompute

    def load_pays(self, request: Any, computed_tokens: int, n_tokens: int) -> bool:
        """Whether a run that the host holds is loaded; a refusal is counted once per request."""
        reason = self._why_not(computed_tokens, n_tokens)
        if reason is None:
            return True
        if request.request_id not in self._refused:
            self._refused.add(request.request_id)
            self.counters.loads_refused[reason] += 1
            self._tell("note_load_refused", self._keys_of(request, computed_tokens, n_tokens), reason.value)
        return False

    def _keys_of(self, request: Any, start_tokens: int, n_tokens: int) -> Sequence[bytes]:
        group, place = self._first_full_attention()
        keys: Sequence[bytes] = self._side._req_status[request.request_id].group_states[place].offload_keys
        return keys[start_tokens // group.chunk_tokens : (start_tokens + n_tokens) // group.chunk_tokens]

    def _why_not(self, computed_tokens: int, n_tokens: int) -> LoadRefusal | None:
        rules = self._rules
        if n_tokens < rules.min_load_tokens:
            return LoadRefusal.TOO_SHORT
        costs = rules.costs
        if rules.kind == "lru" or costs is None:
            return None
        assumed = LinkSpeed(costs.load_bytes_per_s, costs.load_latency_s)
        speed = self._link.speed(assumed)
        return refusal(costs, speed, computed_tokens, n_tokens, self._bytes_ahead(costs.kv_bytes_per_token))

    def _bytes_ahead(self, kv_bytes_per_token: int) -> float:
        """Bytes of loads that have not finished."""
        groups = self._layout.groups
        chunks = sum(len(job.keys) for job in self._side._jobs.values() if not job.is_store)
        return chunks * groups[0].chunk_tokens * kv_bytes_per_token / len(groups)

    # Copies

    def add_stores(self, scheduler_output: Any, meta: Any) -> None:
        """Add the lazy store's jobs to those of the engine; before that, the next victims go to the queue's head."""
        self._prefills.step(scheduler_output, self._request_of)
        taken = taken_blocks(scheduler_output, meta)
        if self._device is not None:
            self._device.stage(taken)
        if self._stores_lazily and self._lazy is not None:
            before = self._lazy.stored_blocks
            meta.store_jobs.update(self._lazy.plan(taken, meta.jobs_to_flush or ()))
            self.counters.lazy_stores += self._lazy.stored_blocks - before

    def lazy_completed(self, connector_output: Any, on_fault: Callable[[str, Exception], None]) -> None:
        """Complete the lazy store's jobs, whether or not we decide anything any more."""
        meta = connector_output.kv_connector_worker_meta
        if self._lazy is not None and meta is not None:
            self._lazy.complete(meta.completed_jobs, on_fault)

    def note_transfers(self, connector_output: Any) -> None:
        """Learn the link's speed from finished copies, and pass them on."""
        meta = connector_output.kv_connector_worker_meta
        if meta is None or meta.transfer_stats.is_empty():
            return
        for is_load, stats in ((True, meta.transfer_stats.load), (False, meta.transfer_stats.store)):
            if stats.is_empty():
                continue
            if is_load:
                self._link.observe(len(stats.sizes), stats.bytes, stats.time, self._layout.n_ranks)
            self._tell("note_transfer", TransferReport(is_load, len(stats.sizes), stats.bytes, stats.time))

    def before_reset(self) -> None:
        """The host is about to be emptied, after which vLLM stores the blocks of running requests again.

        vLLM keeps the ids of blocks that slid out of an attention window and were handed out again, and stores whatever
        they hold now under the old key. Those positions were stored before, so they are left out of the second round.

        Source: vLLM 0.32, distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py: ``reset_cache`` sets
        ``next_stored_chunk_idx`` to 0, while ``_update_req_states`` forgets such ids from that index on only.
        """
        if self._lazy is not None:
            self._lazy.before_reset()
        for status in self._side._req_status.values():
            for group, state in zip(self._layout.groups, status.group_states, strict=True):
                if not group.full_attention:
                    n_stored = _next_stored(state) * self._layout.blocks_per_chunk
                    state.block_ids[:n_stored] = [0] * min(n_stored, len(state.block_ids))

    def take_flushes(self) -> set[int]:
        """Jobs that the next step has to wait for, from an earlier reset; vLLM refuses a second one while there are."""
        waiting: set[int] = self._side._current_batch_jobs_to_flush
        self._side._current_batch_jobs_to_flush = set()
        return waiting

    def after_reset(self, to_flush: set[int]) -> None:
        """The host was emptied; what was to be flushed before still is."""
        self._side._current_batch_jobs_to_flush.update(to_flush)
        if self._lazy is not None:
            self._lazy.reset()

    def become_stock(self) -> None:
        """Decide nothing any more."""
        self._stores_lazily = False
        for status in self._side._req_status.values():
            self._limit_eager_stores(status)
        if self._device is not None:
            self._device.obey(None)
        self.counters.fallbacks += 1


def taken_blocks(scheduler_output: Any, meta: Any) -> int:
    """Blocks that this step may have taken from the device's free queue, cache hits included."""
    taken = sum(len(group) for new in scheduler_output.scheduled_new_reqs for group in new.block_ids)
    for groups in scheduler_output.scheduled_cached_reqs.new_block_ids:
        taken += sum(len(group) for group in groups or ())
    return taken + sum(len(compat.job_ends(job)[1].block_ids) for job in meta.load_jobs.values())


def _is_on(feature: Feature) -> bool:
    """Whether the installed vLLM has what a feature needs; if not, the log says what it lacks."""
    report = compat.check_signatures()
    if not report.is_on(feature):
        _log.warning("kv-autotune: %s is off, vLLM's own behaviour stands: %s", feature, report.reason(feature))
    return report.is_on(feature)


def _next_stored(state: Any) -> int:
    """Chunks of a request's group that were offered; ``next_stored_block_idx`` up to vLLM 0.25."""
    index = getattr(state, "next_stored_chunk_idx", None)
    return int(state.next_stored_block_idx if index is None else index)


def _asked_limit(request: Any) -> int | None:
    """``max_offload_tokens`` as the client asked for.

    Source: vLLM 0.32, distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (RequestOffloadState).
    """
    asked = (request.kv_transfer_params or {}).get("max_offload_tokens")
    return asked if type(asked) is int and asked >= 0 else None
