"""The columns that the simulator's loops read, derived from a trace once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.core.units import NS_PER_S
from autotune.sim.config import CacheConfig
from autotune.sim.scan import next_uses, request_that_repeats


class Stream(NamedTuple):
    """Columns of the trace as the loop reads them."""

    arrival_ns: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]
    max_hit: npt.NDArray[np.int32]
    input_tokens: npt.NDArray[np.int32]
    decode_ns: npt.NDArray[np.int64]
    next_use: npt.NDArray[np.int64]


def make_stream(trace: Trace, config: CacheConfig) -> Stream:
    """The trace's columns in the types that the loop was compiled for."""
    lengths = np.diff(trace.block_offsets)
    hits = (trace.input_tokens - 1) // trace.block_tokens if config.full_blocks else lengths
    return Stream(
        arrival_ns=np.rint(trace.arrival_s * NS_PER_S).astype(np.int64),
        offsets=trace.block_offsets.astype(np.int64, copy=False),
        ids=trace.block_ids,
        max_hit=np.minimum(hits, lengths).astype(np.int32),
        input_tokens=trace.input_tokens.astype(np.int32, copy=False),
        decode_ns=np.rint(trace.output_tokens * config.itl_s * NS_PER_S).astype(np.int64),
        next_use=next_uses(trace) if config.is_clairvoyant else np.zeros(0, np.int64),
    )


def without_partial_blocks(trace: Trace) -> Trace:
    """The trace as an engine caches it: only blocks that are filled to the last token."""
    lengths = np.diff(trace.block_offsets)
    full = np.minimum(lengths, trace.input_tokens // trace.block_tokens)
    if np.array_equal(full, lengths):
        return trace
    position = np.arange(trace.n_accesses) - np.repeat(trace.block_offsets[:-1], lengths)
    keep = position < np.repeat(full, lengths)
    offsets = np.concatenate(([0], np.cumsum(full)))
    return replace(trace, block_offsets=offsets, block_ids=trace.block_ids[keep])


def require_distinct_blocks(trace: Trace, what: str, instead: str) -> None:
    """Refuse a request that names a block twice, which means nothing: an id stands for a block and its whole prefix.

    Args:
        trace: The requests.
        what: What requests do for which their blocks must be distinct, in the message.
        instead: What the user may do other than correct the trace, in the message.

    Raises:
        TraceError: there is one.
    """
    request = request_that_repeats(trace)
    if request is not None:
        raise TraceError(
            f"a request that {what} names each of them once",
            got=f"request {request} (counted from 0) with a block twice",
            remedy=f"correct the trace, or {instead}",
        )


def block_depths(trace: Trace) -> npt.NDArray[np.int32]:
    """``(n_blocks,)`` position of each block in its chain, as seen at its first appearance."""
    position = np.arange(trace.n_accesses) - np.repeat(trace.block_offsets[:-1], np.diff(trace.block_offsets))
    depths = np.zeros(trace.n_blocks, np.int32)
    depths[trace.block_ids[::-1]] = position[::-1]
    return depths


def chunk_parents(parents: npt.NDArray[np.int32], chunk_blocks: int) -> npt.NDArray[np.int32]:
    """The block ``chunk_blocks`` before each block in its chain, -1 where there is none."""
    result = parents
    for _ in range(chunk_blocks - 1):
        result = np.where(result >= 0, parents[result], np.int32(-1))
    return result
