"""Which requests a sampled shadow sees: whole chains, drawn by a hash."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.decide.sketch import sketch_hash
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_HASHES = 2**32


def sampled_chains(stream: Stream, n_blocks: int, frac: float, seed: int) -> npt.NDArray[np.uint8]:
    """1 for the requests of the sample, ``(n_requests,)``.

    A chain begins with a request that does not continue the last full block of another, and is drawn by its number. So
    what requests share with each other is either seen by a shadow or not, never in half.

    Args:
        stream: The trace's columns.
        n_blocks: Distinct blocks.
        frac: Share of chains.
        seed: Changes the draw.
    """
    n = len(stream.arrival_ns)
    if frac >= 1.0:
        return np.ones(n, np.uint8)
    chain = np.zeros(n, np.int64)
    _find_chains(stream.offsets, stream.ids, np.full(n_blocks, -1, np.int64), chain)
    first = np.unique(chain)
    drawn = np.array([sketch_hash(int(c) * 2 + seed * 7919 + 1) < frac * _HASHES for c in first])
    return drawn[np.searchsorted(first, chain)].astype(np.uint8)


@_kernels.entry
def _find_chains(
    offsets: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int32],
    last_user: npt.NDArray[np.int64],
    chain: npt.NDArray[np.int64],
) -> None:
    for r in range(len(offsets) - 1):
        lo, hi = offsets[r], offsets[r + 1]
        known = np.int64(0)
        while lo + known < hi and last_user[ids[lo + known]] >= 0:
            known += 1
        chain[r] = r
        if known > 0:
            before = last_user[ids[lo + known - 1]]
            if known + 1 >= offsets[before + 1] - offsets[before]:
                chain[r] = chain[before]
        for i in range(lo, hi):
            last_user[ids[i]] = r
