"""What a finished request adds to the past of its blocks, compiled.

One pass over the request's blocks finds its runs, gives each a new row with its features, tells the fate of the rows
that they leave, and notes since when the blocks are idle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide import features as f
from autotune.core.history import (
    A_CHAIN_GAP_S,
    A_EXPECTED_IDLE_S,
    CLASS,
    E_BLOCKS,
    E_GAP_NS,
    E_ROW,
    H_BLOCK_TOKENS,
    H_EVENTS,
    H_FORGET_NS,
    H_ROWS,
    IDLE_SINCE_NS,
    ODDS,
    R_BEFORE,
    R_CHAIN,
    R_FINISH_NS,
    R_INPUT_TOKENS,
    R_OUTPUT_TOKENS,
    R_PRIORITY,
    R_SESSION_END,
    R_STOP,
    R_TURN,
    RECENT_LONG,
    RECENT_SHORT,
    W_BLOCKS,
    W_CLASS,
    W_FIRST_NS,
    W_GAP_NS,
    W_IDLE_NS,
    W_ODDS,
    W_PREVIOUS_GAP_NS,
    W_REQUEST,
    W_USES,
    History,
)
from autotune_policies.kernels.decide import chain_average_s, recent_uses, seconds_of
from autotune_policies.kernels.jit import as_int64, compiled, step

_Ids = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float64]


@step
def known_row(h: History, b: int, now_ns: int) -> int:
    """Newest row of a block; -1 if it was never used or is forgotten."""
    row = as_int64(h.row_of[b])
    if row >= 0 and now_ns - h.rows[row, W_IDLE_NS] > h.ints[H_FORGET_NS]:
        return as_int64(-1)
    return row


@compiled
def continue_chain(h: History, ids: _Ids, offsets: npt.NDArray[np.int64], r: int, start_ns: int) -> int:
    """Which request this one continues, and the numbers of its chain.

    It continues the last user of its deepest known block, if that block is the last full one of that user.

    Returns:
        How many of the request's blocks are known.
    """
    lo, hi = offsets[r], offsets[r + 1]
    known = as_int64(0)
    while lo + known < hi and known_row(h, ids[lo + known], start_ns) >= 0:
        known += 1
    h.requests[r, R_BEFORE] = -1
    h.requests[r, R_TURN] = 0
    h.requests[r, R_CHAIN] = r
    h.averages[r, A_CHAIN_GAP_S] = f.UNKNOWN
    if known == 0:
        return known
    before = h.rows[h.row_of[ids[lo + known - 1]], W_REQUEST]
    if known + 1 < offsets[before + 1] - offsets[before]:
        return known
    gap_ns = start_ns - h.requests[before, R_FINISH_NS]
    h.requests[r, R_BEFORE] = before
    h.requests[r, R_TURN] = h.requests[before, R_TURN] + 1
    h.requests[r, R_CHAIN] = h.requests[before, R_CHAIN]
    h.averages[r, A_CHAIN_GAP_S] = chain_average_s(h.averages[before, A_CHAIN_GAP_S], seconds_of(max(gap_ns, 0)))
    return known


@compiled
def request_features(h: History, row: _Floats, r: int, known: int, n: int, start_ns: int) -> None:
    """The features that all runs of a request of ``n`` blocks share."""
    before = h.requests[r, R_BEFORE]
    tokens = h.requests[r, R_INPUT_TOKENS]
    row[f.REQUEST_TOKENS] = tokens
    row[f.NEW_TOKENS] = max(tokens - known * h.ints[H_BLOCK_TOKENS], 0)
    row[f.KNOWN_FRAC] = known / n
    row[f.OUTPUT_TOKENS] = h.requests[r, R_OUTPUT_TOKENS]
    row[f.STOP_CODE] = h.requests[r, R_STOP]
    row[f.TURN] = h.requests[r, R_TURN]
    row[f.CHAIN_GAP_EWMA_S] = h.averages[r, A_CHAIN_GAP_S]
    row[f.CHAIN_GAP_S] = f.UNKNOWN
    row[f.GROWTH_TOKENS] = f.UNKNOWN
    if before >= 0:
        row[f.CHAIN_GAP_S] = seconds_of(max(start_ns - h.requests[before, R_FINISH_NS], 0))
        row[f.GROWTH_TOKENS] = tokens - h.requests[before, R_INPUT_TOKENS]
    row[f.SESSION_END] = h.requests[r, R_SESSION_END]
    row[f.EXPECTED_IDLE_S] = h.averages[r, A_EXPECTED_IDLE_S]
    row[f.PRIORITY] = h.requests[r, R_PRIORITY]


@step
def _leave(h: History, old: int, n: int, start_ns: int) -> int:
    """``n`` blocks leave their old row because they were used again; returns how long they lay idle, in ns.

    Blocks that never were idle, for their last user still ran, had no fate: they are taken out of their row.
    """
    gap_ns = start_ns - h.rows[old, W_IDLE_NS]
    if gap_ns < 0:
        h.rows[old, W_BLOCKS] -= n
        return as_int64(0)
    e = h.ints[H_EVENTS]
    h.ints[H_EVENTS] = e + 1
    h.events[e, E_ROW] = old
    h.events[e, E_GAP_NS] = gap_ns
    h.events[e, E_BLOCKS] = n
    return gap_ns


@compiled
def new_row(h: History, old: int, n: int, r: int, start_ns: int, now_ns: int) -> int:
    """The row of a run of ``n`` blocks that stood in row ``old`` (-1: they are new); returns its number."""
    row = h.ints[H_ROWS]
    h.ints[H_ROWS] = row + 1
    h.rows[row, W_REQUEST] = r
    h.rows[row, W_IDLE_NS] = now_ns
    h.rows[row, W_BLOCKS] = n
    h.rows[row, W_CLASS] = 0
    h.rows[row, W_ODDS] = 0
    if old < 0:
        h.rows[row, W_USES] = 1
        h.rows[row, W_FIRST_NS] = start_ns
        h.rows[row, W_GAP_NS] = -1
        h.rows[row, W_PREVIOUS_GAP_NS] = -1
        h.recent[row, RECENT_SHORT] = 1.0
        h.recent[row, RECENT_LONG] = 1.0
        return row
    elapsed_ns = max(now_ns - h.rows[old, W_IDLE_NS], 0)
    h.rows[row, W_USES] = h.rows[old, W_USES] + 1
    h.rows[row, W_FIRST_NS] = h.rows[old, W_FIRST_NS]
    h.rows[row, W_PREVIOUS_GAP_NS] = h.rows[old, W_GAP_NS]
    h.recent[row, RECENT_SHORT] = recent_uses(h.recent[old, RECENT_SHORT], elapsed_ns, f.SHORT_S)
    h.recent[row, RECENT_LONG] = recent_uses(h.recent[old, RECENT_LONG], elapsed_ns, f.LONG_S)
    h.rows[row, W_GAP_NS] = _leave(h, old, n, start_ns)
    return row


@compiled
def run_features(
    h: History, x: _Floats, row: int, ids: _Ids, lo: int, hi: int, first: int, end: int, now_ns: int, parent_uses: int
) -> None:
    """The features of one run, positions ``first`` to ``end`` of ``ids``, of the request at ``ids[lo:hi]``."""
    block_tokens = h.ints[H_BLOCK_TOKENS]
    x[f.DEPTH_TOKENS] = (first - lo) * block_tokens
    x[f.RUN_TOKENS] = (end - first) * block_tokens
    x[f.TAIL_TOKENS] = (hi - end) * block_tokens
    x[f.USES] = h.rows[row, W_USES]
    x[f.GAP_S] = seconds_of(h.rows[row, W_GAP_NS])
    x[f.PREVIOUS_GAP_S] = seconds_of(h.rows[row, W_PREVIOUS_GAP_NS])
    x[f.SINCE_FIRST_S] = seconds_of(now_ns - h.rows[row, W_FIRST_NS])
    x[f.RECENT_60] = h.recent[row, RECENT_SHORT]
    x[f.RECENT_600] = h.recent[row, RECENT_LONG]
    x[f.CHILDREN] = h.children[ids[end - 1]]
    x[f.SIBLINGS] = h.children[ids[first - 1]] if first > lo else f.UNKNOWN
    x[f.USES_TO_PARENT] = h.rows[row, W_USES] / parent_uses if parent_uses > 0 else f.UNKNOWN


@compiled
def end_of_run(h: History, ids: _Ids, first: int, hi: int, now_ns: int) -> int:
    """One past the last position of the run that begins at ``first``."""
    row = known_row(h, ids[first], now_ns)
    end = first + 1
    while end < hi and known_row(h, ids[end], now_ns) == row:
        end += 1
    return end


@step
def put_into_row(h: History, ids: _Ids, first: int, end: int, row: int, now_ns: int) -> None:
    """The run's blocks stand in their new row, which is classified, from now on."""
    group, odds = h.rows[row, W_CLASS], h.rows[row, W_ODDS]
    for i in range(first, end):
        b = ids[i]
        h.row_of[b] = row
        h.shared[b, IDLE_SINCE_NS] = now_ns
        h.shared[b, CLASS] = group
        h.shared[b, ODDS] = odds


@step
def count_child(h: History, ids: _Ids, lo: int, known: int, hi: int) -> None:
    """New blocks continue the blocks before them."""
    for i in range(lo + max(known, as_int64(1)), hi):
        h.children[ids[i - 1]] += 1
