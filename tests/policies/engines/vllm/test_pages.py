from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune_policies.engines.vllm.pages import CopyError, PageRef, PageTable, TensorPages, pair_blocks

PAGE_BYTES = (48, 16, 32)  # tensors need not be alike: a latent cache, an index beside it


@dataclass(frozen=True)
class Group:
    """The blocks of one group in a copy."""

    first_index: int
    blocks: list[int]
    chunks: list[int]


@st.composite
def copies(draw: st.DrawFn) -> tuple[int, list[Group]]:
    """Blocks per chunk, and groups whose blocks and chunks are all different."""
    blocks_per_chunk = draw(st.integers(1, 4))
    free_blocks, free_chunks = draw(st.permutations(range(40))), draw(st.permutations(range(40)))
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        size, first_index = draw(st.integers(0, 9)), draw(st.integers(0, 11))
        n_chunks = -(-(first_index % blocks_per_chunk + size) // blocks_per_chunk) if size else 0
        groups.append(Group(first_index, free_blocks[:size], free_chunks[:n_chunks]))
        free_blocks, free_chunks = free_blocks[size:], free_chunks[n_chunks:]
    return blocks_per_chunk, groups


def table(blocks_per_chunk: int) -> PageTable:
    """Three tensors with random content; the first group of layers has two of them, each other group one."""
    draw = np.random.default_rng(3)
    tensors = []
    for page_bytes in PAGE_BYTES:
        rows: npt.NDArray[np.uint8] = draw.integers(0, 256, (40, blocks_per_chunk * page_bytes + 8), dtype=np.uint8)
        host = rows[:, :-8].reshape(40, blocks_per_chunk, page_bytes)  # a copy where rows lie apart
        tensors.append(TensorPages(draw.integers(0, 256, (40, page_bytes), dtype=np.uint8), host))
    return PageTable(tensors, [[PageRef(0, 40), PageRef(1, 16)], [PageRef(2, 32)], [PageRef(1, 16)]])


def joined(groups: list[Group]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[int], list[int]]:
    """A copy as vLLM writes it: all blocks, all chunks, sizes and first indices of the groups."""
    blocks = np.array([block for group in groups for block in group.blocks], dtype=np.int32)
    chunks = np.array([chunk for group in groups for chunk in group.chunks], dtype=np.int32)
    return blocks, chunks, [len(group.blocks) for group in groups], [group.first_index for group in groups]


@given(copies())
def test_a_block_goes_to_its_place_in_the_request(copy: tuple[int, list[Group]]) -> None:
    """Block i of a request lies in the page i mod k of the chunk that covers i div k."""
    blocks_per_chunk, groups = copy
    blocks, chunks, sizes, firsts = joined(groups)
    for pair in pair_blocks(blocks, chunks, sizes, firsts, blocks_per_chunk):
        group = groups[pair.group_index]
        first_chunk = group.first_index // blocks_per_chunk
        for offset, (block, chunk, slot) in enumerate(zip(pair.blocks, pair.chunks, pair.slots, strict=True)):
            index = group.first_index + offset
            assert block == group.blocks[offset]
            assert chunk == group.chunks[index // blocks_per_chunk - first_chunk]
            assert slot == index % blocks_per_chunk


@given(copies())
def test_what_was_stored_comes_back(copy: tuple[int, list[Group]]) -> None:
    """A store and a load of the same blocks restore the bytes in use, and touch nothing else."""
    blocks_per_chunk, groups = copy
    pages = table(blocks_per_chunk)
    before = [tensor.device.copy() for tensor in pages.tensors]
    pairs = pair_blocks(*joined(groups), blocks_per_chunk)
    pages.store(pairs)
    for pair in pairs:
        for ref in pages.groups[pair.group_index]:
            pages.tensors[ref.tensor_index].device[pair.blocks, : ref.used_bytes] = 0
    pages.load(pairs)
    for tensor, expected in zip(pages.tensors, before, strict=True):
        np.testing.assert_array_equal(tensor.device, expected)


@given(copies())
def test_a_load_may_begin_within_a_chunk(copy: tuple[int, list[Group]]) -> None:
    """Blocks that the device has already are left out of a load, and the rest still comes to its own place."""
    blocks_per_chunk, groups = copy
    pages = table(blocks_per_chunk)
    pages.store(pair_blocks(*joined(groups), blocks_per_chunk))
    expected = [tensor.device.copy() for tensor in pages.tensors]
    later = [_without_the_first(group, blocks_per_chunk) for group in groups]
    pairs = pair_blocks(*joined(later), blocks_per_chunk)
    for pair in pairs:
        for ref in pages.groups[pair.group_index]:
            pages.tensors[ref.tensor_index].device[pair.blocks, : ref.used_bytes] ^= 0xFF
    pages.load(pairs)
    for tensor, content in zip(pages.tensors, expected, strict=True):
        np.testing.assert_array_equal(tensor.device, content)


def test_bytes_are_those_in_use() -> None:
    """A copy counts the bytes that the layers use, not the padding of their pages."""
    pairs = pair_blocks(np.arange(5), np.arange(5), [3, 2], [0, 0], 1)
    assert table(1).n_bytes(pairs) == 3 * (40 + 16) + 2 * 32


@pytest.mark.parametrize(("n_blocks", "n_chunks"), [(3, 2), (4, 1), (5, 2), (4, 3)])
def test_lists_that_do_not_add_up_are_refused(n_blocks: int, n_chunks: int) -> None:
    """Four blocks in chunks of two are two chunks, and nothing else."""
    with pytest.raises(CopyError, match="blocks and chunks of a copy"):
        pair_blocks(np.arange(n_blocks), np.arange(n_chunks), [4], [0], 2)


@pytest.mark.parametrize(("blocks", "chunks", "word"), [([40], [0], "device block"), ([0], [-1], "host chunk")])
def test_places_that_do_not_exist_are_refused(blocks: list[int], chunks: list[int], word: str) -> None:
    """An index outside the tensors is an error before anything is copied."""
    with pytest.raises(CopyError, match=word):
        table(1).check(pair_blocks(np.array(blocks), np.array(chunks), [1], [0], 1))


def _without_the_first(group: Group, blocks_per_chunk: int) -> Group:
    """A group that begins one block later."""
    if not group.blocks:
        return group
    n_chunks_gone = int((group.first_index + 1) % blocks_per_chunk == 0) if len(group.blocks) > 1 else len(group.chunks)
    return Group(group.first_index + 1, group.blocks[1:], group.chunks[n_chunks_gone:])
