"""The copies between device and host where the device is the CPU: plain memory copies on a thread of their own.

On CUDA and XPU the engine's own worker does this; see ``spec.py``. Here the copies are asynchronous as they are there,
and an optional simulated link makes them as slow as a real one, so that trade-offs show on a machine without a GPU.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import torch
from vllm.v1.kv_offload.base import CanonicalKVCaches, GPULoadStoreSpec, LoadStoreSpec, OffloadingWorker, TransferResult

from autotune_policies.engines.vllm.pages import (
    BlockPairs,
    Bytes,
    CopyError,
    PageRef,
    PageTable,
    TensorPages,
    pair_blocks,
)

_LOG = logging.getLogger("vllm.kv_autotune.worker")  # below vLLM's own logger, so that its handlers print it


class Direction(Enum):
    """Which way a copy goes."""

    STORE = "store"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class SimulatedLink:
    """A link between device and host of a stated speed; both directions share it, one copy after the other.

    Attributes:
        bytes_per_s: Bandwidth; infinite = as fast as memory is.
        latency_s: What each copy takes beside its bytes.
    """

    bytes_per_s: float = float("inf")
    latency_s: float = 0.0

    def seconds(self, n_bytes: int) -> float:
        """How long a copy takes on this link."""
        return self.latency_s + n_bytes / self.bytes_per_s

    def carry(self, n_bytes: int, closing: threading.Event) -> None:
        """Wait as long as the copy takes, without using the processor; not at all once ``closing`` is set."""
        closing.wait(self.seconds(n_bytes))


class Link(Protocol):
    """What a copy has to pass before its bytes arrive."""

    def carry(self, n_bytes: int, closing: threading.Event) -> None:
        """Return when that many bytes have passed, or soon after ``closing`` is set."""


class HostRegion(Protocol):
    """What is used of vLLM's shared memory region (v1/kv_offload/cpu/shared_offload_region.py)."""

    mmap_path: str

    def create_next_worker_view(self, tensor_page_size: int) -> torch.Tensor:
        """This rank's part of the next tensor, ``(n_chunks, tensor_page_size)``."""

    def cleanup(self) -> None:
        """Unmap it."""


@dataclass(frozen=True, slots=True)
class _Job:
    job_id: int
    direction: Direction
    pairs: tuple[BlockPairs, ...]
    n_bytes: int


class TorchCopyWorker(OffloadingWorker):
    """Stores and loads in the order of their submission, each complete before it is reported.

    The bytes are copied at the end of a copy's time on the link: until then a load has changed nothing on the device
    and a store still reads its source, so whoever uses either too early gets wrong KV, here as on a GPU.

    Args:
        kv_caches: The engine's tensors on the CPU.
        blocks_per_chunk: Blocks that one chunk of the host pool holds.
        n_chunks: Size of the host pool in chunks.
        region: Shared memory to keep the pool in; a private pool if not given. Owned from here on.
        link: What a copy has to pass; by default a link as fast as memory is.
    """

    def __init__(
        self,
        kv_caches: CanonicalKVCaches,
        blocks_per_chunk: int,
        n_chunks: int,
        region: HostRegion | None = None,
        link: Link | None = None,
    ) -> None:
        self._pages = _page_table(kv_caches, blocks_per_chunk, n_chunks, region)
        self._blocks_per_chunk = blocks_per_chunk
        self._region = region
        self._link = link or SimulatedLink()
        # A process that ends without shutdown() still removes the file; one that is killed cannot.
        self._remove_file = None if region is None else weakref.finalize(self, _remove, Path(region.mmap_path))
        self._queue: deque[_Job] = deque()
        self._unfinished: set[int] = set()
        self._finished: list[TransferResult] = []
        self._changed = threading.Condition()  # guards the three above
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kv-autotune-copy", daemon=True)
        self._thread.start()

    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Copy blocks of the device into chunks of the host; returns at once."""
        return self._submit(job_id, Direction.STORE, device=src_spec, host=dst_spec)

    def submit_load(
        self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec, expedited: bool = False
    ) -> bool:
        """Copy chunks of the host into blocks of the device; returns at once.

        ``expedited`` (vLLM 0.33) asks to overtake other copies; the order of submission is kept all the same.
        """
        return self._submit(job_id, Direction.LOAD, device=dst_spec, host=src_spec)

    def get_finished(self) -> list[TransferResult]:
        """Copies that completed since the last call."""
        with self._changed:
            finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids: Collection[int]) -> None:
        """Return when these copies have completed."""
        with self._changed:
            self._changed.wait_for(lambda: self._unfinished.isdisjoint(job_ids))

    def shutdown(self) -> None:
        """Complete every copy that was submitted, without the waiting of a simulated link, and let go of the memory."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        self._thread.join()
        self._pages = PageTable((), ())  # the region cannot be unmapped while something refers to it
        if self._region is not None:
            self._region.cleanup()
            self._region = None
        if self._remove_file is not None:
            self._remove_file()

    def _submit(self, job_id: int, direction: Direction, *, device: Any, host: Any) -> bool:
        if self._closing.is_set():
            return False
        pairs = pair_blocks(
            device.block_ids, host.block_ids, device.group_sizes, device.block_indices, self._blocks_per_chunk
        )
        self._pages.check(pairs)
        job = _Job(job_id, direction, pairs, self._pages.n_bytes(pairs))
        with self._changed:
            if job_id in self._unfinished:
                raise CopyError("each copy needs a number of its own", got=f"{job_id} twice")
            self._unfinished.add(job_id)
            self._queue.append(job)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        while (job := self._next()) is not None:
            result = self._result(job)
            with self._changed:
                self._unfinished.remove(job.job_id)
                self._finished.append(result)
                self._changed.notify_all()

    def _next(self) -> _Job | None:
        """The next copy in order; None when there is none left and none can come."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing.is_set())
            return self._queue.popleft() if self._queue else None

    def _result(self, job: _Job) -> TransferResult:
        started_s = time.perf_counter()
        try:
            self._copy(job)
        except Exception:
            # The engine stops at a failed copy, with its own message. A thread that died would leave it waiting.
            _LOG.exception("%s %d failed", job.direction.value, job.job_id)
            return TransferResult(job.job_id, success=False)
        seconds = time.perf_counter() - started_s
        return TransferResult(job.job_id, success=True, transfer_size=job.n_bytes, transfer_time=seconds)

    def _copy(self, job: _Job) -> None:
        self._link.carry(job.n_bytes, self._closing)
        if job.direction is Direction.STORE:
            self._pages.store(job.pairs)
        else:
            self._pages.load(job.pairs)


def _page_table(
    kv_caches: CanonicalKVCaches, blocks_per_chunk: int, n_chunks: int, region: HostRegion | None
) -> PageTable:
    """The tensors of the engine beside a host pool of the same pages.

    Source: vLLM 0.32, v1/kv_offload/base.py (CanonicalKVCaches) and cpu/gpu_worker.py (CPUOffloadingWorker.__init__).
    """
    tensors = []
    for entry in kv_caches.tensors:
        page_bytes = int(entry.page_size_bytes)
        row_bytes = page_bytes * blocks_per_chunk
        device = entry.tensor.view(torch.int8)
        if device.ndim != 2 or device.shape[1] != page_bytes:
            device = device.view(-1, page_bytes)
        host = (
            torch.zeros((n_chunks, row_bytes), dtype=torch.int8)
            if region is None
            else region.create_next_worker_view(row_bytes)
        )
        tensors.append(TensorPages(_as_bytes(device), _as_bytes(host.unflatten(1, (blocks_per_chunk, page_bytes)))))
    groups = [
        [PageRef(int(ref.tensor_idx), int(ref.page_size_bytes)) for ref in refs] for refs in kv_caches.group_data_refs
    ]
    return PageTable(tensors, groups)


def _as_bytes(tensor: torch.Tensor) -> Bytes:
    """The same memory as a NumPy array: its indexing copies whole pages, where that of torch goes byte by byte."""
    array: Bytes = tensor.numpy().view("uint8")
    return array


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
