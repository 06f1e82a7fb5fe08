"""The same trace with larger blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.chains import chain_violations
from autotune.traces.columns import first_appearance, offsets, run_positions
from autotune.traces.options import whole


def coarsen(trace: Trace, block_tokens: int) -> Trace:
    """Make blocks ``k`` times larger, exactly.

    An id stands for its block and the whole prefix, so the id of the last fine block of a complete group of ``k``
    determines the whole group: it becomes the id of the coarse block. What does not fill a coarse block is dropped.

    Args:
        trace: A trace with block ids.
        block_tokens: Tokens per coarse block, a multiple of the trace's.

    Returns:
        The coarse trace; the trace itself where nothing changes.

    Raises:
        TraceError: the trace has no blocks, the size is no multiple, or its ids do not determine their prefixes.
    """
    trace.require_blocks()
    factor, rest = divmod(whole("block_tokens", block_tokens, low=1), trace.block_tokens)
    if factor < 1 or rest:
        raise TraceError(
            f"coarse blocks must be a multiple of the trace's {trace.block_tokens} tokens",
            got=f"{block_tokens}",
            remedy=f"choose {trace.block_tokens}, {2 * trace.block_tokens}, {4 * trace.block_tokens}, ...",
        )
    if factor == 1:
        return trace
    _require_chains(trace)
    fine_counts = np.diff(trace.block_offsets)
    # A partial block at the end of a prompt has an id in some formats, but cannot complete a coarse block.
    counts = np.minimum(fine_counts // factor, trace.input_tokens // block_tokens)
    coarse = run_positions(np.zeros(len(counts), np.int64), counts)
    last_of_group = np.repeat(trace.block_offsets[:-1], counts) + coarse * factor + (factor - 1)
    block_ids, n_blocks = first_appearance(trace.block_ids[last_of_group], trace.n_blocks)
    options = dict(trace.provenance.options) | {"coarsened_to_tokens": str(block_tokens)}
    return replace(
        trace,
        block_offsets=offsets(counts),
        block_ids=block_ids,
        n_blocks=n_blocks,
        block_tokens=block_tokens,
        provenance=replace(trace.provenance, options=tuple(sorted(options.items()))),
    )


def _require_chains(trace: Trace) -> None:
    violations = chain_violations(trace)
    if violations:
        raise TraceError(
            "coarsening needs ids that stand for a block and its whole prefix",
            got=f"{violations} of {trace.n_accesses} accesses that continue another block than before",
            remedy="keep the trace's own block size",
        )
