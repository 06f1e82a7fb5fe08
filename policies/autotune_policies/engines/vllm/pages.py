"""Which bytes of the device belong to which bytes of the host: the arithmetic behind every copy, in NumPy alone.

The device holds tensors of pages, one page per block. The host holds the same tensors with one row per chunk, and a row
has ``blocks_per_chunk`` pages side by side. A request's first chunk may be entered in its middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.errors import AutotuneError

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.intp]


class CopyError(AutotuneError):
    """A copy was asked for that does not fit the tensors."""


@dataclass(frozen=True, slots=True)
class TensorPages:
    """One tensor of the KV cache on both sides.

    Attributes:
        device: Shape ``(n_blocks, page_bytes)``.
        host: Shape ``(n_chunks, blocks_per_chunk, page_bytes)``; rows may lie apart.
    """

    device: Bytes
    host: Bytes


@dataclass(frozen=True, slots=True)
class PageRef:
    """What one layer of a group occupies: the first ``used_bytes`` of the pages of one tensor."""

    tensor_index: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class BlockPairs:
    """The blocks of one group of layers in one copy; the arrays have one element per block.

    Attributes:
        group_index: Position of the group among those that are offloaded.
        blocks: Block on the device.
        chunks: Row of the host pool.
        slots: Page within that row.
    """

    group_index: int
    blocks: Indices
    chunks: Indices
    slots: Indices


def pair_blocks(
    blocks: npt.NDArray[np.integer],
    chunks: npt.NDArray[np.integer],
    group_sizes: Sequence[int],
    first_indices: Sequence[int],
    blocks_per_chunk: int,
) -> tuple[BlockPairs, ...]:
    """Pair the device blocks of a copy with their places on the host.

    Args:
        blocks: Device blocks of all groups, one group after the other.
        chunks: Host chunks of all groups, likewise; each group begins a chunk of its own.
        group_sizes: Number of blocks per group.
        first_indices: Index within the request of the first block of each group; what it exceeds a chunk boundary by
            is skipped in the first chunk.
        blocks_per_chunk: Blocks that one chunk holds.

    Raises:
        CopyError: The lists do not add up.

    Source: vLLM 0.32, v1/kv_offload/cpu/gpu_worker.py, SingleDirectionOffloadingHandler.transfer_async.
    """
    pairs, block_at, chunk_at = [], 0, 0
    for group_index, (size, first_index) in enumerate(zip(group_sizes, first_indices, strict=True)):
        if size == 0:
            continue
        skipped = first_index % blocks_per_chunk
        positions = np.arange(skipped, skipped + size)
        n_chunks = -(-(skipped + size) // blocks_per_chunk)
        group_chunks = chunks[chunk_at : chunk_at + n_chunks]
        if len(group_chunks) < n_chunks:
            break
        pairs.append(
            BlockPairs(
                group_index=group_index,
                blocks=blocks[block_at : block_at + size].astype(np.intp),
                chunks=group_chunks[positions // blocks_per_chunk].astype(np.intp),
                slots=positions % blocks_per_chunk,
            )
        )
        block_at, chunk_at = block_at + size, chunk_at + n_chunks
    if (block_at, chunk_at) != (len(blocks), len(chunks)):
        raise CopyError(
            "the blocks and chunks of a copy must be those of its groups",
            got=f"{len(blocks)} blocks and {len(chunks)} chunks, group sizes {list(group_sizes)}, first indices "
            f"{list(first_indices)}, {blocks_per_chunk} blocks per chunk",
        )
    return tuple(pairs)


class PageTable:
    """Every tensor on both sides, and which of them each group of layers uses.

    Args:
        tensors: The tensors, in the order that ``groups`` refers to.
        groups: Per group, what its layers occupy.
    """

    def __init__(self, tensors: Sequence[TensorPages], groups: Sequence[Sequence[PageRef]]) -> None:
        self.tensors = tuple(tensors)
        self.groups = tuple(tuple(group) for group in groups)

    def check(self, pairs: Sequence[BlockPairs]) -> None:
        """Refuse a copy that would touch a block or a chunk that does not exist.

        Raises:
            CopyError: An index is out of range.
        """
        for pair in pairs:
            for ref in self.groups[pair.group_index]:
                tensor = self.tensors[ref.tensor_index]
                _check_range("device block", pair.blocks, len(tensor.device))
                _check_range("host chunk", pair.chunks, len(tensor.host))

    def n_bytes(self, pairs: Sequence[BlockPairs]) -> int:
        """Bytes that a copy moves."""
        return sum(len(pair.blocks) * ref.used_bytes for pair in pairs for ref in self.groups[pair.group_index])

    def store(self, pairs: Sequence[BlockPairs]) -> None:
        """Copy from the device to the host."""
        for pair, device, host in self._pages(pairs):
            host[pair.chunks, pair.slots] = device[pair.blocks]

    def load(self, pairs: Sequence[BlockPairs]) -> None:
        """Copy from the host to the device."""
        for pair, device, host in self._pages(pairs):
            device[pair.blocks] = host[pair.chunks, pair.slots]

    def _pages(self, pairs: Sequence[BlockPairs]) -> Iterator[tuple[BlockPairs, Bytes, Bytes]]:
        for pair in pairs:
            for ref in self.groups[pair.group_index]:
                tensor = self.tensors[ref.tensor_index]
                yield pair, tensor.device[:, : ref.used_bytes], tensor.host[:, :, : ref.used_bytes]


def _check_range(what: str, indices: Indices, n: int) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        raise CopyError(f"a {what} must be one of the {n} that exist", got=f"{indices.min()} to {indices.max()}")
