"""The worker on real tensors, driven as vLLM's connector drives it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.engine("vllm")

N_BLOCKS, N_CHUNKS, PAGE_BYTES = 16, 12, 64
WAIT_S = 20.0
Build = Callable[..., Any]


class Gate:
    """A link on which copies wait until they are let through, one by one."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self._open = threading.Semaphore(0)

    def carry(self, n_bytes: int, closing: threading.Event) -> None:
        """Wait to be let through, or for the shutdown."""
        self.arrived.release()
        while not self._open.acquire(timeout=0.01):
            if closing.is_set():
                return

    def let_through(self, n: int = 1) -> None:
        """Let copies through."""
        self._open.release(n)


def device(seed: int = 0, page_bytes: int = PAGE_BYTES) -> Any:
    """A tensor of random pages."""
    import torch

    return torch.randint(-128, 128, (N_BLOCKS, page_bytes), dtype=torch.int8, generator=torch.manual_seed(seed))


def caches(*tensors: Any, groups: list[list[tuple[int, int]]] | None = None) -> Any:
    """Tensors as vLLM hands them over; one group that uses all of each, unless said otherwise."""
    from vllm.v1.kv_offload.base import CanonicalKVCacheRef, CanonicalKVCaches, CanonicalKVCacheTensor

    refs = groups or [[(index, tensor.shape[1]) for index, tensor in enumerate(tensors)]]
    return CanonicalKVCaches(
        [CanonicalKVCacheTensor(tensor, tensor.shape[1]) for tensor in tensors],
        [[CanonicalKVCacheRef(*ref) for ref in group] for group in refs],
    )


def on_device(blocks: list[int], first_index: int = 0) -> Any:
    """Blocks of one group on the device."""
    from vllm.v1.kv_offload.base import GPULoadStoreSpec

    return GPULoadStoreSpec(blocks, [len(blocks)], [first_index])


def on_host(chunks: list[int]) -> Any:
    """Chunks of the host."""
    from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec

    return CPULoadStoreSpec(chunks)


@pytest.fixture
def build() -> Iterator[Build]:
    """Makes workers, and ends them after the test."""
    from autotune_policies.engines.vllm.worker import TorchCopyWorker

    workers = []

    def make(kv_caches: Any, blocks_per_chunk: int = 1, **named: Any) -> Any:
        workers.append(TorchCopyWorker(kv_caches, blocks_per_chunk, N_CHUNKS, **named))
        return workers[-1]

    yield make
    for worker in workers:
        worker.shutdown()


def test_a_store_and_a_load_restore_the_pages(build: Build) -> None:
    """Pages of tensors of different widths go to the host and come back into other blocks."""
    keys, latent = device(0), device(1, 24)
    worker = build(caches(keys, latent))
    worker.submit_store(1, on_device([3, 5, 8]), on_host([2, 0, 7]))
    worker.submit_load(2, on_host([0, 7]), on_device([10, 11]))
    worker.wait({1, 2})
    for tensor in (keys, latent):
        assert tensor[10].equal(tensor[5])
        assert tensor[11].equal(tensor[8])
    results = worker.get_finished()
    assert [(result.job_id, result.success, result.transfer_size) for result in results] == [
        (1, True, 3 * (PAGE_BYTES + 24)),
        (2, True, 2 * (PAGE_BYTES + 24)),
    ]
    assert worker.get_finished() == []


@pytest.mark.parametrize("blocks_per_chunk", [1, 2, 4])
@pytest.mark.parametrize("first_index", [0, 1, 5])
def test_pages_lie_where_vllm_puts_them(build: Build, blocks_per_chunk: int, first_index: int) -> None:
    """Each block's place on the host is the address that vLLM's own worker computes for it."""
    from vllm.v1.kv_offload.cpu.gpu_worker import compute_sub_block_ptrs

    tensor = device()
    worker = build(caches(tensor), blocks_per_chunk)
    blocks, chunks = [4, 9, 2, 7, 11], [6, 1, 3, 5, 8, 0]
    skipped = first_index % blocks_per_chunk
    chunks = chunks[: -(-(skipped + len(blocks)) // blocks_per_chunk)]
    worker.submit_store(1, on_device(blocks, first_index), on_host(chunks))
    worker.wait({1})

    host = worker._pages.tensors[0].host
    import torch

    rows = torch.from_numpy(host.reshape(N_CHUNKS, -1))
    addresses = np.empty(len(blocks), dtype=np.uint64)
    compute_sub_block_ptrs(np.array(chunks), blocks_per_chunk, addresses, rows, skip_count=skipped)
    flat = rows.flatten()
    for block, address in zip(blocks, addresses.tolist(), strict=True):
        start = address - rows.data_ptr()
        assert flat[start : start + PAGE_BYTES].view(torch.int8).equal(tensor[block])


def test_groups_keep_to_their_own_tensors(build: Build) -> None:
    """A copy of two groups touches of each tensor only what its group uses."""
    from vllm.v1.kv_offload.base import GPULoadStoreSpec

    full, windowed = device(0), device(1)
    before = full.clone()
    worker = build(caches(full, windowed, groups=[[(0, 40)], [(1, PAGE_BYTES)]]))
    worker.submit_store(1, GPULoadStoreSpec([1, 2, 3], [1, 2], [0, 6]), on_host([0, 1, 2]))
    worker.submit_load(2, on_host([0, 1, 2]), GPULoadStoreSpec([4, 5, 6], [1, 2], [0, 6]))
    worker.wait({1, 2})
    assert full[4, :40].equal(before[1, :40])
    assert full[4, 40:].equal(before[4, 40:])
    assert full[5].equal(before[5])
    assert windowed[5].equal(windowed[2])
    assert windowed[6].equal(windowed[3])


def test_tensors_whose_pages_lie_apart(build: Build) -> None:
    """Blocks may be parts of wider rows, as where layers are interleaved."""
    whole = device(0, 3 * PAGE_BYTES)
    middle = whole[:, PAGE_BYTES : 2 * PAGE_BYTES]
    left = whole[:, :PAGE_BYTES].clone()
    worker = build(caches(middle))
    worker.submit_store(1, on_device([0]), on_host([0]))
    worker.submit_load(2, on_host([0]), on_device([9]))
    worker.wait({1, 2})
    assert middle[9].equal(middle[0])
    assert whole[:, :PAGE_BYTES].equal(left)


def test_nothing_has_changed_before_a_copy_is_reported(build: Build) -> None:
    """A load under way has not written, a store under way still reads, and later copies wait for earlier ones."""
    gate, tensor = Gate(), device()
    first, second = tensor[1].clone(), tensor[2].clone()
    worker = build(caches(tensor), link=gate)
    worker.submit_store(1, on_device([1]), on_host([0]))
    worker.submit_load(2, on_host([0]), on_device([2]))
    assert gate.arrived.acquire(timeout=WAIT_S)
    assert worker.get_finished() == []
    assert tensor[2].equal(second)
    gate.let_through()
    worker.wait({1})
    assert gate.arrived.acquire(timeout=WAIT_S)
    assert [result.job_id for result in worker.get_finished()] == [1]
    assert tensor[2].equal(second)
    gate.let_through()
    worker.wait({2})
    assert tensor[2].equal(first)


def test_waiting_is_for_the_named_copies_only(build: Build) -> None:
    """Waiting returns when these are complete, whatever else is queued, and at once for numbers that are not known."""
    gate, tensor = Gate(), device()
    worker = build(caches(tensor), link=gate)
    for job_id in (1, 2):
        worker.submit_store(job_id, on_device([job_id]), on_host([job_id]))
    worker.wait({77})
    gate.let_through()
    worker.wait({1})
    assert [result.job_id for result in worker.get_finished()] == [1]


def test_shutdown_completes_what_was_submitted(build: Build) -> None:
    """Copies that were submitted are made, without the waiting of a simulated link; later ones are refused."""
    from autotune_policies.engines.vllm.worker import SimulatedLink

    tensor = device()
    worker = build(caches(tensor), link=SimulatedLink(latency_s=3600.0))
    worker.submit_store(1, on_device([1]), on_host([0]))
    worker.submit_load(2, on_host([0]), on_device([2]))
    worker.shutdown()
    assert tensor[2].equal(tensor[1])
    assert [result.job_id for result in worker.get_finished()] == [1, 2]
    assert worker.submit_store(3, on_device([1]), on_host([0])) is False
    worker.shutdown()


def test_a_copy_that_fails_is_reported_as_such(build: Build) -> None:
    """The engine learns of it, and the copies behind it are made."""
    tensor = device()
    worker = build(caches(tensor))
    frozen = worker._pages.tensors[0].host
    frozen.flags.writeable = False
    worker.submit_store(1, on_device([1]), on_host([0]))
    worker.submit_load(2, on_host([3]), on_device([2]))
    worker.wait({1, 2})
    assert [(result.job_id, result.success) for result in worker.get_finished()] == [(1, False), (2, True)]
    assert not tensor[2].any()


def test_wrong_copies_are_refused_when_they_are_submitted(build: Build) -> None:
    """Blocks that do not exist, and a number that is in use, are errors of the caller."""
    from autotune_policies.engines.vllm.pages import CopyError

    gate = Gate()
    worker = build(caches(device()), link=gate)
    with pytest.raises(CopyError, match="device block"):
        worker.submit_store(1, on_device([N_BLOCKS]), on_host([0]))
    with pytest.raises(CopyError, match="host chunk"):
        worker.submit_load(1, on_host([N_CHUNKS]), on_device([0]))
    worker.submit_store(1, on_device([0]), on_host([0]))
    with pytest.raises(CopyError, match="number of its own"):
        worker.submit_store(1, on_device([0]), on_host([0]))
    gate.let_through()


def test_a_link_takes_its_latency_and_its_bandwidth() -> None:
    """A gigabyte at one gigabyte per second takes a second and the latency; without either it takes nothing."""
    from autotune_policies.engines.vllm.worker import SimulatedLink

    assert SimulatedLink(1e9, 0.25).seconds(10**9) == 1.25
    assert SimulatedLink().seconds(10**9) == 0.0


def test_the_shared_pool_is_vllms_own(build: Build) -> None:
    """On a shared region the chunks are what its other readers see, and shutting down removes the file."""
    from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion

    keys, values = device(0), device(1)
    row_bytes = 2 * PAGE_BYTES
    region = SharedOffloadRegion("autotune-test", N_CHUNKS, 0, 4096, row_bytes)
    path = Path(region.mmap_path)
    with path.open("rb") as file:
        worker = build(caches(keys, values), region=region)
        worker.submit_store(1, on_device([6]), on_host([5]))
        worker.wait({1})
        file.seek(5 * 4096)
        stored = np.frombuffer(file.read(row_bytes), dtype=np.int8)
    assert stored.tolist() == [*keys[6].tolist(), *values[6].tolist()]
    worker.shutdown()
    assert not path.exists()
