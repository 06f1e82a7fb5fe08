"""What the vllm mode notes beside the counts: the fate of each chunk of a request, evictions and calls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# NOT_OFFERED: neither loaded nor offered to the host. LOADED: came from the host. REUSED: offered, the host had it.
# KEPT: offered and stored. FAILED: offered and admitted, but nothing could make room. REFUSED: offered, not admitted.
NOT_OFFERED, LOADED, REUSED, KEPT, FAILED, REFUSED = range(6)
FIRST_OFFERED = REUSED

# Entries of ``Journal.counts``.
N_EVICTED, N_CALLS = range(2)


class Journal(NamedTuple):
    """What the mode notes beside the counts of the result.

    Attributes:
        fates: ``(n_accesses,)`` int8; chunk ``c`` of a request at ``block_offsets[request] + c``.
        evicted: ``(n_accesses or 0,)`` int32 chunks that left the host, in order; empty if nobody wants to know.
        calls: ``(2 * n_requests or 0,)`` int64; ``r`` where request r gets its turn, ``-1 - r`` where it ends.
        counts: ``(2,)`` int64 entries in ``evicted`` and ``calls``.
    """

    fates: npt.NDArray[np.int8]
    evicted: npt.NDArray[np.int32]
    calls: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
