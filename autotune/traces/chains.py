"""Whether block ids stand for whole prefixes, as all reasoning about prefix caches assumes."""

from __future__ import annotations

import numpy as np

from autotune.core.trace import UNKNOWN, IntColumn, Trace, chain_parents


def predecessors(trace: Trace) -> IntColumn:
    """The block before each access within its request, ``(n_accesses,)`` int32; -1 at the start of a prompt."""
    previous = np.empty(trace.n_accesses, np.int32)
    previous[1:] = trace.block_ids[:-1]
    previous[trace.block_offsets[:-1][np.diff(trace.block_offsets) > 0]] = UNKNOWN
    return previous


def chain_violations(trace: Trace) -> int:
    """How many accesses continue another block than the first access to the same block did.

    Zero means that an id determines its whole prefix. In a trace of single blocks without prefixes it is zero too.
    """
    return int(np.count_nonzero(chain_parents(trace)[trace.block_ids] != predecessors(trace)))
