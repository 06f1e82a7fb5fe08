"""Lazy store: blocks are copied to the host when they near the end of their idle life on the device, not before.

Eager stores copy every block of every request. Lazily, only blocks that the device is about to drop are copied: those
near the head of the device's free queue that requests left behind. Nothing is stored of what stays on the device.

**How a block is kept whole while it is read.** Its reference count is left alone: it stays in the free queue, at its
place, and counts as free, so that admission, preemption and cache resets of the engine go on as without us. It is
fenced instead, by the mechanism with which the engine protects its own stores of finished requests: the job stands in
the connector's ``_block_id_to_pending_jobs``, and if the block is handed out before the copy has completed, the engine
flushes the job, which means that its worker completes it before that step computes or loads anything. The blocks are
taken early enough (:class:`Horizon`) that this hardly happens. A held reference, as
``SimpleCPUOffloadConnector`` takes it, makes ``reset_prefix_cache`` fail while copies are in flight.

Source: vLLM 0.24 to 0.33, distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py (build_connector_meta,
request_finished, reset_cache); v1/simple_kv_offload/manager.py (_prepare_lazy_store_specs) for the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from vllm.v1.kv_offload.base import GPULoadStoreSpec

from autotune.core.clock import monotonic_ns
from autotune.core.errors import ConfigError
from autotune.core.units import NS_PER_S
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.layout import Layout, cached_key

_CONTEXT_PREFIX = "kv-autotune-lazy-"
_PATIENCE = 0.998  # the horizon halves over about 350 walks without a late copy
_WALKS_PER_HORIZON = 2


@dataclass(frozen=True, slots=True)
class LazyLimits:
    """Bounds of the work, and of how early blocks are copied.

    Attributes:
        least_horizon_blocks: Blocks ahead of eviction that are copied at least.
        most_horizon_blocks: And at most; the further ahead, the more a lazy store is an eager one.
        step_blocks: Most blocks offered in one step.
    """

    least_horizon_blocks: int
    most_horizon_blocks: int
    step_blocks: int

    @classmethod
    def of(cls, step_blocks: int, pool_blocks: int) -> LazyLimits:
        """Limits of an engine.

        Args:
            step_blocks: Most blocks that one step takes from the free queue.
            pool_blocks: Blocks of the device.
        """
        most = max(1, pool_blocks // 4)
        return cls(min(step_blocks, most), most, step_blocks)


class Horizon:
    """How far ahead of eviction blocks are copied: doubled when a copy came too late, slowly reduced while none does.

    Too far costs laziness: a block may be used again after it was copied for nothing. Too near costs time: the engine
    waits for a copy whose block it needs.

    Args:
        limits: Its bounds.
    """

    def __init__(self, limits: LazyLimits) -> None:
        self._limits = limits
        self._blocks = float(limits.least_horizon_blocks)

    @property
    def blocks(self) -> int:
        """The horizon now."""
        return int(self._blocks)

    def copies_were_late(self) -> None:
        """The engine had to wait for a copy."""
        self._blocks = min(2.0 * self._blocks, float(self._limits.most_horizon_blocks))

    def copies_were_in_time(self) -> None:
        """A walk passed without any wait."""
        self._blocks = max(_PATIENCE * self._blocks, float(self._limits.least_horizon_blocks))


class IdleBlock(NamedTuple):
    """What is known of a block whose request has ended.

    Attributes:
        block_id: The block.
        key: Offload key of its content when the request ended.
        parent: Key of the block before it, if the device had that too.
        run: Number of the last request that used it.
        group: Place of its group in the connector's configuration.
        end_tokens: Tokens up to its end.
    """

    block_id: int
    key: bytes
    parent: bytes | None
    run: int
    group: int
    end_tokens: int


@dataclass(slots=True)
class LazyJob:
    """One store in flight."""

    context: Any
    keys: tuple[bytes, ...]
    block_ids: tuple[int, ...]
    pending_ranks: int


class LazyStore:
    """Stores idle blocks with jobs of its own.

    Call order: :meth:`note_finished` when a request ends; :meth:`plan` once per step, after the engine's own jobs were
    built; :meth:`complete` before the engine looks at completed jobs; :meth:`reset` after the engine's own reset.

    Args:
        side: The connector's scheduler side.
        pool: The device's block pool.
        layout: How the engine cuts its KV.
        limits: Bounds of the work per step.

    Raises:
        ConfigError: The engine's layout is one that is only stored eagerly.
    """

    def __init__(self, side: Any, pool: Any, layout: Layout, limits: LazyLimits) -> None:
        check_layout(layout)
        self._side = side
        self._pool = pool
        self._layout = layout
        self._limits = limits
        self.horizon = Horizon(limits)
        self._groups = {group.group_id: place for place, group in enumerate(layout.groups)}
        self._idle: dict[int, IdleBlock] = {}
        self._jobs: dict[int, LazyJob] = {}
        self._runs = 0
        self._contexts = 0
        self._taken_blocks = 0
        self._more_waits = False
        self._saw_all = True
        self.offered_blocks = 0
        self.stored_blocks = 0
        self.late_jobs = 0

    @property
    def pending(self) -> bool:
        """Whether copies are in flight, so that the engine must go on stepping."""
        return bool(self._jobs)

    def note_finished(self, block_ids_by_group: Mapping[int, Sequence[int]], max_tokens: int) -> None:
        """A request ended: its blocks may be stored once they near eviction.

        Args:
            block_ids_by_group: Block ids of the request in order, by KV-cache group; 0 stands for no block.
            max_tokens: Blocks that end beyond this are not stored.
        """
        self._runs += 1
        blocks = self._pool.blocks
        for group_id, block_ids in block_ids_by_group.items():
            place = self._groups.get(group_id)
            if place is None:
                continue
            block_tokens = self._layout.groups[place].block_tokens
            parent: bytes | None = None
            for index, block_id in enumerate(block_ids[: max_tokens // block_tokens]):
                end_tokens = (index + 1) * block_tokens
                key = cached_key(blocks[block_id], end_tokens)
                if key is not None:
                    self._idle[block_id] = IdleBlock(block_id, key, parent, self._runs, place, end_tokens)
                parent = key
        self._more_waits |= self._saw_all

    def plan(self, taken_blocks: int, flushed_jobs: Collection[int]) -> dict[int, Any]:
        """Store jobs of this step.

        Args:
            taken_blocks: Blocks that left the free queue since the last call; more than there were does no harm.
            flushed_jobs: Jobs that the worker has to complete before this step.
        """
        late = sum(job_id in self._jobs for job_id in flushed_jobs)
        if late:
            self.late_jobs += late
            self.horizon.copies_were_late()
        self._taken_blocks += taken_blocks
        if not (self._more_waits or late or _WALKS_PER_HORIZON * self._taken_blocks >= self.horizon.blocks):
            return {}
        self._taken_blocks = 0
        due = self._due()
        self._more_waits = len(due) > self._limits.step_blocks
        jobs = [self._offer(run) for run in _runs(due[: self._limits.step_blocks])]
        if not late:
            self.horizon.copies_were_in_time()
        return {job_id: transfer for job in jobs if job is not None for job_id, transfer in (job,)}

    def complete(self, completed_jobs: MutableMapping[int, int], on_fault: Callable[[str, Exception], None]) -> None:
        """Take our own jobs out of a report of completed ones. Raises nothing.

        Args:
            completed_jobs: Job id to number of ranks that completed it.
            on_fault: Told what the manager raised.
        """
        for job_id in [job_id for job_id in completed_jobs if job_id in self._jobs]:
            job = self._jobs[job_id]
            job.pending_ranks -= completed_jobs.pop(job_id)
            if job.pending_ranks > 0:
                continue
            self._forget(job_id)
            try:
                with compat.manager_locked(self._side):
                    self._side.manager.complete_store(job.keys, job.context)
            except Exception as error:
                on_fault("complete_store", error)

    def before_reset(self) -> None:
        """The engine is about to empty the host; from vLLM 0.33 on its manager is told when the last copy is done."""
        fence = getattr(self._side, "_reset_fence", None)
        if fence is not None and self._jobs:
            if not fence:
                self._side._reset_fence_since = monotonic_ns() / NS_PER_S
            fence.update((job_id, job.pending_ranks) for job_id, job in self._jobs.items())

    def reset(self) -> None:
        """The engine emptied the host: let the worker finish what is in flight, and forget it.

        The engine drops completions of jobs from before the reset by their number.
        """
        self._side._current_batch_jobs_to_flush.update(self._jobs)
        self._jobs.clear()

    def _due(self) -> list[IdleBlock]:
        """Idle blocks that are next to be evicted, the first one first."""
        queue = self._pool.free_block_queue
        tail = queue.fake_free_list_tail
        block = queue.fake_free_list_head.next_free_block
        due: list[IdleBlock] = []
        for _ in range(self.horizon.blocks):
            self._saw_all = block is tail
            if self._saw_all:
                break
            idle = self._idle.get(block.block_id)
            if idle is not None:
                if idle.key == block.block_hash:
                    due.append(idle)
                else:
                    del self._idle[block.block_id]
            block = block.next_free_block
        return due

    def _offer(self, run: list[IdleBlock]) -> tuple[int, Any] | None:
        """Offer consecutive blocks of one request to the manager; a block is offered once per idle life."""
        context = self._new_context(run)
        manager, first = self._side.manager, run[0]
        keys = [idle.key for idle in run]
        with compat.manager_locked(self._side):
            manager.on_new_request(context)
            note_idle = getattr(getattr(manager, "primary_tier", manager), "note_idle", None)
            if note_idle is not None:
                note_idle(context, first.parent, first.end_tokens - self._layout.groups[first.group].block_tokens)
            output = manager.prepare_store(keys, context)
            try:
                return self._submit(run, output, context)
            finally:
                manager.on_request_finished(context)

    def _submit(self, run: list[IdleBlock], output: Any, context: Any) -> tuple[int, Any] | None:
        if output is None:
            return None
        self.offered_blocks += len(run)
        for idle in run:
            del self._idle[idle.block_id]
        if not output.keys_to_store:
            return None
        by_key = {idle.key: idle for idle in run}
        taken = [by_key[key] for key in output.keys_to_store]
        job_id = self._side._generate_job_id()
        block_ids = tuple(idle.block_id for idle in taken)
        for block_id in block_ids:
            self._side._block_id_to_pending_jobs.setdefault(block_id, set()).add(job_id)
        self._jobs[job_id] = LazyJob(context, tuple(output.keys_to_store), block_ids, self._layout.n_ranks)
        self.stored_blocks += len(block_ids)
        return job_id, compat.transfer_job(context.req_id, self._source(taken), output.store_spec)

    def _source(self, taken: Sequence[IdleBlock]) -> GPULoadStoreSpec:
        sizes = [0] * len(self._groups)
        for idle in taken:
            sizes[idle.group] += 1
        return GPULoadStoreSpec([idle.block_id for idle in taken], group_sizes=sizes, block_indices=[0] * len(sizes))

    def _new_context(self, run: Sequence[IdleBlock]) -> Any:
        """A context of its own for every offer: the manager refuses new keys under that of a finished request."""
        self._contexts += 1
        context = compat.new_req_context(f"{_CONTEXT_PREFIX}{self._contexts}")
        set_position = getattr(context, "set_offload_key_position", None)
        if set_position is not None:
            for idle in run:
                set_position(idle.key, idle.end_tokens)
        return context

    def _forget(self, job_id: int) -> None:
        job = self._jobs.pop(job_id)
        fences = self._side._block_id_to_pending_jobs
        for block_id in job.block_ids:
            waiting = fences.get(block_id)
            if waiting is not None:
                waiting.discard(job_id)
                if not waiting:
                    del fences[block_id]


def check_layout(layout: Layout) -> None:
    """Refuse layouts whose idle blocks cannot be stored one by one, or not all of them.

    Of a group with a sliding window the device's own cache names only the blocks at the end of a request, and a block
    without a name cannot be stored once its request has ended. The engine's eager stores are built from the request and
    know the others too.

    Raises:
        ConfigError: Chunks of several blocks, hashes finer than blocks, windows, recurrent state, or a draft model.
    """
    if layout.blocks_per_chunk != 1:
        raise _eager_only("chunks of one block", f"blocks_per_chunk {layout.blocks_per_chunk}")
    for group in layout.groups:
        if group.hashes_per_chunk != 1:
            raise _eager_only("one hash per block", f"{group.hashes_per_chunk} in group {group.group_id}")
        if not group.full_attention:
            raise _eager_only("full attention in all layers", f"a window in group {group.group_id}")
        if not group.stores_singly:
            raise _eager_only("layers of the model itself", f"others in group {group.group_id}")


def _eager_only(needs: str, got: str) -> ConfigError:
    return ConfigError(f"a lazy store needs {needs}", got=got, remedy="blocks are stored eagerly instead")


def _runs(due: Sequence[IdleBlock]) -> Iterator[list[IdleBlock]]:
    """Blocks that follow each other in one request and group, in prefix order; the most urgent request first."""
    requests: dict[int, list[IdleBlock]] = {}
    for idle in due:
        requests.setdefault(idle.run, []).append(idle)
    for blocks in requests.values():
        blocks.sort(key=lambda idle: (idle.group, idle.end_tokens))
        run = blocks[:1]
        for idle in blocks[1:]:
            if idle.parent != run[-1].key:
                yield run
                run = []
            run.append(idle)
        yield run
