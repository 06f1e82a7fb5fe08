"""A real vLLM scheduler with our connector, and a worker that copies content tags instead of keys and values.

The scheduler, its KV-cache manager, the block pool, the connector's scheduler side and the offloading manager are the
engine's own. Only the worker is played: it takes the metadata of each step exactly as vLLM's worker side does, keeps
device and host memory as arrays of content tags, performs copies when it is told to, and checks, before it "computes",
that every token a scheduled request relies on has the tag that its prefix calls for. So a copy that was used too
early, or a block that was overwritten while it was read, shows as a wrong tag.

Source: vLLM 0.32, distributed/kv_transfer/kv_connector/v1/offloading/worker.py (order of flush, submit, compute),
v1/worker/kv_connector_model_runner_mixin.py, v1/engine/core.py (step).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scheduler_setup import HarnessConfig, new_request, new_scheduler

from autotune_policies.engines.vllm import compat

_GARBAGE = -1
_SEED_TAG = 7_919
_STEP_LIMIT = 5_000


class KvCorruptionError(AssertionError):
    """A scheduled request relied on a token whose keys and values are not those of its prefix."""


@dataclass
class CopyJob:
    """One submitted copy: pairs of (device block, row of the host chunk, host chunk)."""

    job_id: int
    is_store: bool
    request_id: str
    parts: list[tuple[int, int, int]]


@dataclass
class StepCounts:
    """What happened over the life of a harness."""

    steps: int = 0
    loads: int = 0
    stores: int = 0
    flushed_jobs: int = 0
    stalled_jobs: int = 0
    preemptions: int = 0
    checked_tokens: int = 0
    stored_blocks: int = 0
    loaded_blocks: int = 0


@dataclass
class Worker:
    """Device and host memory as content tags, and the copies between them."""

    device: NDArray[np.int64]
    host: NDArray[np.int64]
    unsubmitted: list[CopyJob] = field(default_factory=list)
    submitted: dict[int, CopyJob] = field(default_factory=dict)
    copied: dict[int, CopyJob] = field(default_factory=dict)

    def copy(self, job_id: int) -> None:
        """Perform one submitted copy now: the source is read as it is at this moment."""
        job = self.submitted.pop(job_id)
        for device_block, row, host_chunk in job.parts:
            if job.is_store:
                self.host[host_chunk, row] = self.device[device_block]
            else:
                self.device[device_block] = self.host[host_chunk, row]
        self.copied[job_id] = job


class SchedulerHarness:
    """Drives a real scheduler step by step.

    Args:
        config: Sizes and the connector under test.
        order: Called with the ids of submitted copies, returns those that a step completes, in order. Default: all.
    """

    def __init__(self, config: HarnessConfig, order: Callable[[list[int]], list[int]] | None = None) -> None:
        self.config = config
        self.order = order
        self.scheduler = new_scheduler(config)
        self.counts = StepCounts()
        shape = (config.block_tokens,)
        self.worker = Worker(
            device=np.full((config.device_blocks, *shape), _GARBAGE, dtype=np.int64),
            host=np.full((config.host_chunks, config.blocks_per_chunk, *shape), _GARBAGE, dtype=np.int64),
        )
        self.tables: dict[str, tuple[list[int], ...]] = {}
        self.requests: dict[str, Any] = {}
        self.finished: set[str] = set()
        self.outputs: dict[str, list[int]] = {}
        self.contents: dict[bytes, NDArray[np.int64]] = {}
        self.failing_stores: int = 0
        self._number = 0
        self._fail_stores_at_manager()

    @property
    def connector(self) -> Any:
        """The connector's scheduler side under test."""
        return self.scheduler.connector

    @property
    def manager(self) -> Any:
        """The offloading manager."""
        return self.connector.connector_scheduler.manager

    @property
    def pool(self) -> Any:
        """The device block pool."""
        return self.scheduler.kv_cache_manager.block_pool

    def add(self, tokens: Iterable[int], max_tokens: int = 2, **attributes: Any) -> str:
        """Add a request; returns its id."""
        request_id = f"r{self._number}"
        self._number += 1
        request = new_request(self.config, request_id, list(tokens), max_tokens, attributes)
        self.requests[request_id] = request
        self.scheduler.add_request(request)
        self._learn_contents()
        return request_id

    def abort(self, request_id: str) -> None:
        """Abort a request as a client that disconnects does."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        self.finished.add(request_id)

    def reset(self, *, preempt: bool = False, host: bool = True) -> bool:
        """Reset the caches as ``POST /reset_prefix_cache`` does."""
        return bool(self.scheduler.reset_prefix_cache(reset_running_requests=preempt, reset_connector=host))

    def step(self, reports: int | None = None) -> None:
        """One engine step: schedule, flush, submit, compute, report, update.

        Args:
            reports: How many finished copies are reported in this step; all of them by default.
        """
        if not self.scheduler.has_requests():
            return
        self.counts.steps += 1
        output = self.scheduler.schedule()
        meta = output.kv_connector_metadata
        self.counts.preemptions += len(output.preempted_req_ids or ())
        self._flush(meta)
        self._submit(meta)
        self._update_tables(output)
        sampled = self._compute(output)
        self.worker.unsubmitted.extend(self._job(job_id, job, True) for job_id, job in meta.store_jobs.items())
        self._complete(self.order)
        self._update(output, sampled, reports)

    def drain(self, limit: int = _STEP_LIMIT) -> None:
        """Step until the engine has nothing left to do, completing every copy that it asks for."""
        self.order, order = None, self.order
        for _ in range(limit):
            if not self.scheduler.has_requests():
                break
            self.step()
        else:
            raise AssertionError(f"the engine did not come to rest within {limit} steps")
        self.order = order

    def check_at_rest(self) -> None:
        """Everything finished, nothing pinned, nothing pending, every reference returned."""
        side = self.connector.connector_scheduler
        missing = set(self.requests) - self.finished
        assert not missing, f"requests never finished: {sorted(missing)}"
        assert not side._jobs, f"jobs left: {side._jobs}"
        assert not side._req_status, f"request states left: {list(side._req_status)}"
        assert not side._block_id_to_pending_jobs, f"fences left: {side._block_id_to_pending_jobs}"
        busy = [block.block_id for block in self.pool.blocks if block.ref_cnt and not block.is_null]
        assert not busy, f"device blocks still referenced: {busy}"
        assert self.pool.get_num_free_blocks() == self.config.device_blocks - 1
        assert not self.connector.has_pending_push_work()
        self.check_host()
        manager = self.manager
        unit = "chunks" if hasattr(manager, "_num_chunks") else "blocks"  # up to vLLM 0.29
        assert getattr(manager, f"_num_write_pending_{unit}", 0) == 0, "stores never completed"
        assert getattr(manager, f"_num_evictable_cache_{unit}") == self.resident_chunks(), "chunks still pinned"

    def resident_chunks(self) -> int:
        """How many chunks the host manager holds, stores in flight included."""
        return compat.capacity_chunks(self.manager) - compat.free_chunks(self.manager)()

    def check_host(self) -> None:
        """Residents never exceed the capacity, and no chunk is free and resident at once."""
        assert 0 <= self.resident_chunks() <= self.config.host_chunks
        free = self.manager._free_list
        assert len(set(free)) == len(free), "a host chunk was freed twice"

    @property
    def is_loading(self) -> bool:
        """Whether a request holds device blocks that a load in flight fills."""
        return any(block.ref_cnt for block in self.pool.blocks if not block.is_null) and any(
            request.status.name == "WAITING_FOR_REMOTE_KVS" or request.is_finished()
            for request in self.scheduler.requests.values()
        )

    def check_queue(self) -> None:
        """The free queue is a sound list of the blocks that nobody refers to."""
        free = self.pool.free_block_queue.get_all_free_blocks()
        assert len(free) == self.pool.get_num_free_blocks()
        assert {block.block_id for block in free} == {
            block.block_id for block in self.pool.blocks if block.ref_cnt == 0 and not block.is_null
        }

    def check_contents(self) -> None:
        """Every cached device block and every ready host chunk holds what its key promises."""
        for block in self.pool.blocks:
            if block.block_hash is not None:
                held = self.worker.device[block.block_id]
                assert np.array_equal(held, self._promised(block.block_hash)[-1]), f"device block {block.block_id}"
        for key in self.ready_chunks():
            status = self.manager._policy.get(key)
            held = self.worker.host[status.chunk_id if hasattr(status, "chunk_id") else status.block_id]
            assert np.array_equal(held, self._promised(key)), f"host chunk of {key.hex()[:8]}"

    def ready_chunks(self) -> list[bytes]:
        """Keys that the host can load."""
        get = self.manager._policy.get
        return [
            key
            for block_hash in self.contents
            for key in self._keys(block_hash)
            if (chunk := get(key)) is not None and chunk.is_ready
        ]

    def _keys(self, block_hash: bytes) -> list[bytes]:
        groups = 1 if self.config.window_tokens is None else 2
        return [block_hash + group.to_bytes(4, "big") for group in range(groups)]

    def _promised(self, key: bytes) -> NDArray[np.int64]:
        """Tags of the chunk that ends with this block, shape (blocks_per_chunk, block_tokens)."""
        return self.contents[bytes(key[:-4])] + int.from_bytes(key[-4:], "big")

    def _learn_contents(self) -> None:
        """Remember what every block hash stands for."""
        size, factor = self.config.block_tokens, self.config.blocks_per_chunk
        for request_id in self.scheduler.requests:
            hashes = self.requests[request_id].block_hashes
            if hashes and bytes(hashes[-1]) not in self.contents:
                tags = self._tags(request_id)
                for index, block_hash in enumerate(hashes):
                    first = max(0, index + 1 - factor) * size
                    self.contents[bytes(block_hash)] = tags[first : (index + 1) * size].reshape(-1, size)

    def _flush(self, meta: Any) -> None:
        """Vllm's worker side, ``handle_preemptions``: submit what was deferred, then wait for the flushed jobs."""
        flushed = meta.jobs_to_flush or set()
        for job_id in flushed:
            job = meta.store_jobs.pop(job_id, None)
            if job is not None:
                self.worker.unsubmitted.append(self._job(job_id, job, True))
        self._submit_deferred()
        self.counts.flushed_jobs += len(flushed)
        for job_id in sorted(flushed):
            if job_id in self.worker.submitted:
                self.counts.stalled_jobs += 1
                self.worker.copy(job_id)

    def _submit_deferred(self) -> None:
        self.worker.submitted.update((job.job_id, job) for job in self.worker.unsubmitted)
        self.worker.unsubmitted.clear()

    def _submit(self, meta: Any) -> None:
        self._submit_deferred()
        for job_id, job in meta.load_jobs.items():
            self.worker.submitted[job_id] = self._job(job_id, job, False)

    def _job(self, job_id: int, job: Any, is_store: bool) -> CopyJob:
        source, destination = compat.job_ends(job)
        device, host = (source, destination) if is_store else (destination, source)
        factor = self.config.blocks_per_chunk
        parts: list[tuple[int, int, int]] = []
        position, chunk = 0, 0
        for size, first in zip(device.group_sizes, device.block_indices, strict=True):
            skip = first % factor
            for offset in range(size):
                at = skip + offset
                parts.append(
                    (int(device.block_ids[position + offset]), at % factor, int(host.block_ids[chunk + at // factor]))
                )
            position += size
            chunk += -(-(skip + size) // factor) if size else 0
        if is_store:
            self.counts.stores += 1
            self.counts.stored_blocks += len(parts)
        else:
            self.counts.loads += 1
            self.counts.loaded_blocks += len(parts)
        return CopyJob(job_id, is_store, job.req_id, parts)

    def _update_tables(self, output: Any) -> None:
        for new in output.scheduled_new_reqs:
            self.tables[new.req_id] = tuple(list(group) for group in new.block_ids)
        cached = output.scheduled_cached_reqs
        for index, request_id in enumerate(cached.req_ids):
            blocks = cached.new_block_ids[index]
            if request_id in cached.resumed_req_ids:
                self.tables[request_id] = tuple(list(group) for group in blocks)
            elif blocks is not None:
                for group, more in zip(self.tables[request_id], blocks, strict=True):
                    group.extend(more)

    def _compute(self, output: Any) -> dict[str, list[int]]:
        starts = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        starts.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for request_id, count in output.num_scheduled_tokens.items():
            self._check(request_id, starts[request_id])
            self._write(request_id, starts[request_id], count)
        return {
            request_id: self._sample(request_id, starts[request_id] + count)
            for request_id, count in output.num_scheduled_tokens.items()
        }

    def _check(self, request_id: str, computed_tokens: int) -> None:
        """Every token before ``computed_tokens`` that attention reads must carry the tag of its prefix."""
        tags = self._tags(request_id)
        for group, table in enumerate(self.tables[request_id]):
            window = self.config.window_tokens if group else None
            first = 0 if window is None else max(0, computed_tokens + 1 - window)
            held = self.worker.device[table].reshape(-1)[first:computed_tokens]
            self.counts.checked_tokens += len(held)
            if not np.array_equal(held, tags[first:computed_tokens] + group):
                wrong = int(np.flatnonzero(held != tags[first:computed_tokens] + group)[0]) + first
                raise KvCorruptionError(
                    f"{request_id} group {group}: wrong content at token {wrong} of {computed_tokens}"
                )

    def _write(self, request_id: str, start: int, count: int) -> None:
        tags = self._tags(request_id)
        positions = np.arange(start, start + count)
        size = self.config.block_tokens
        for group, table in enumerate(self.tables[request_id]):
            blocks = np.asarray(table)[positions // size]
            self.worker.device[blocks, positions % size] = tags[start : start + count] + group

    def _sample(self, request_id: str, end: int) -> list[int]:
        request = self.requests[request_id]
        if end < request.num_tokens:
            return []
        return [int(self._tags(request_id)[end - 1] % 5) + 100]

    def _tags(self, request_id: str) -> NDArray[np.int64]:
        return content_tags(tuple(self.requests[request_id].all_token_ids))

    def _complete(self, order: Callable[[list[int]], list[int]] | None) -> None:
        waiting = sorted(self.worker.submitted)
        for job_id in waiting if order is None else order(waiting):
            self.worker.copy(job_id)

    def _update(self, output: Any, sampled: dict[str, list[int]], reports: int | None) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        request_ids = list(output.num_scheduled_tokens)
        result = ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(request_ids)},
            sampled_token_ids=[sampled[request_id] for request_id in request_ids],
            kv_connector_output=self._report(reports),
        )
        for outputs in self.scheduler.update_from_output(output, result).values():
            for one in outputs.outputs:
                self.outputs.setdefault(one.request_id, []).extend(one.new_token_ids)
                if one.finish_reason is not None:
                    self.finished.add(one.request_id)
        self._learn_contents()

    def _report(self, reports: int | None) -> Any:
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
        from vllm.v1.outputs import KVConnectorOutput

        meta = OffloadingWorkerMetadata()
        received: set[str] = set()
        for job_id in list(self.worker.copied)[:reports]:
            job = self.worker.copied.pop(job_id)
            meta.mark_completed(job_id)
            size_bytes = 1024 * len(job.parts)
            side = meta.transfer_stats.store if job.is_store else meta.transfer_stats.load
            side.record(size_bytes, 1e-6 * len(job.parts))
            if not job.is_store:
                received.add(job.request_id)
        if not meta.completed_jobs:
            return None
        return KVConnectorOutput(finished_recving=received, kv_connector_worker_meta=meta)

    def _fail_stores_at_manager(self) -> None:
        """The manager sees ``success=False`` for as many stores as ``failing_stores`` asks for."""
        manager = self.manager
        complete = manager.complete_store

        def complete_store(keys: Any, context: Any, success: bool = True) -> None:
            if self.failing_stores:
                self.failing_stores -= 1
                success = False
            complete(keys, context, success)

        manager.complete_store = complete_store


def prompt(branch: Sequence[int], n_tokens: int) -> list[int]:
    """A prompt from a tree: equal beginnings of ``branch`` give equal beginnings of the prompt, 8 tokens per level."""
    tokens = [10 * level + choice for level, choice in enumerate(branch) for _ in range(8)]
    return (tokens * (n_tokens // len(tokens) + 1))[:n_tokens]


def drive(
    harness: SchedulerHarness, seed: int, n_steps: int, *, copies_frac: float = 0.4, resets_frac: float = 0.01
) -> None:
    """Random traffic with shared prefixes, copies that finish late and in any order, aborts and resets; then drain."""
    rng = random.Random(seed)
    harness.order = lambda job_ids: [job_id for job_id in job_ids if rng.random() < copies_frac]
    for _ in range(n_steps):
        while len(harness.scheduler.requests) < 5:
            branch = (min(int(rng.expovariate(0.7)), 8), rng.randrange(3), rng.randrange(3))
            harness.add(prompt(branch, rng.randrange(2, 25)), rng.randrange(1, 6))
        chance = rng.random()
        if chance < 0.02:
            harness.abort(rng.choice(list(harness.scheduler.requests)))
        elif chance < 0.02 + resets_frac:
            harness.reset(host=rng.random() < 0.5)
        harness.step(reports=rng.choice((0, 1, None)))
        harness.check_queue()
        harness.check_host()
        harness.check_contents()
    harness.drain()
    harness.check_at_rest()


@cache
def content_tags(tokens: tuple[int, ...]) -> NDArray[np.int64]:
    """Tag of every position: depends on all tokens up to it, shape (n_tokens,)."""
    tags = np.empty(len(tokens), dtype=np.int64)
    tag = _SEED_TAG
    for position, token in enumerate(tokens):
        tag = (tag * 1_000_003 + token * 8_191 + position) % 2_147_483_629
        tags[position] = tag * 4
    return tags
