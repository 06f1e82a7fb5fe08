"""What a policy must know of a trace beforehand, in one compiled pass each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.decide.keys import NEVER
from autotune.core.state import DEPTH, PARENT, SLOT
from autotune.core.trace import UNKNOWN, Trace

_kernels = registry.load(registry.KERNELS, "tier")


def place_blocks(trace: Trace, nodes: npt.NDArray[np.int32]) -> None:
    """Write where each block stands in its chain, as seen at its first appearance, into the rows of a tier's state.

    Blocks that the trace (a slice, perhaps) does not name are left alone.

    Args:
        trace: The requests.
        nodes: ``(n_blocks + N_LISTS, N_NODE_COLUMNS)`` zeros; gets PARENT, DEPTH and SLOT (in no heap).
    """
    _place(trace.block_offsets, trace.block_ids, nodes)


def next_uses(trace: Trace) -> npt.NDArray[np.int64]:
    """``(n_accesses,)`` index of the next request that touches the same block, ``NEVER`` if none does."""
    uses = np.empty(trace.n_accesses, np.int64)
    _find_next_uses(trace.block_offsets, trace.block_ids, np.full(trace.n_blocks, NEVER, np.int64), uses)
    return uses


def request_that_repeats(trace: Trace) -> int | None:
    """The first request that names a block twice; None if each names every block once."""
    found = _find_repeat(trace.block_offsets, trace.block_ids, np.full(trace.n_blocks, UNKNOWN, np.int32))
    return None if found < 0 else int(found)


@_kernels.entry
def _place(offsets: npt.NDArray[np.int64], ids: npt.NDArray[np.int32], nodes: npt.NDArray[np.int32]) -> None:
    for r in range(len(offsets) - 1):
        parent = np.int32(UNKNOWN)
        for i in range(offsets[r], offsets[r + 1]):
            b = ids[i]
            if nodes[b, SLOT] == 0:
                nodes[b, SLOT] = -1
                nodes[b, DEPTH] = i - offsets[r]
                nodes[b, PARENT] = parent
            parent = b


@_kernels.entry
def _find_next_uses(
    offsets: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int32],
    upcoming: npt.NDArray[np.int64],
    uses: npt.NDArray[np.int64],
) -> None:
    for r in range(len(offsets) - 2, -1, -1):
        for i in range(offsets[r + 1] - 1, offsets[r] - 1, -1):
            b = ids[i]
            uses[i] = upcoming[b]
            upcoming[b] = r


@_kernels.entry
def _find_repeat(
    offsets: npt.NDArray[np.int64], ids: npt.NDArray[np.int32], named_by: npt.NDArray[np.int32]
) -> np.int64:
    for r in range(len(offsets) - 1):
        for i in range(offsets[r], offsets[r + 1]):
            if named_by[ids[i]] == r:
                return np.int64(r)
            named_by[ids[i]] = r
    return np.int64(-1)
