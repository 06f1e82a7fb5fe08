"""Memory layout of what the learned policy remembers: every block's past, and the rows that its model learns from.

What the blocks of a run have in common is kept once, in a *row*: one run of one finished request. A block only knows
its newest row. So an access costs one read and one write per block, and the fate of a row, how many of its blocks were
used again and when, falls out of the next request that finds them there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import N_FEATURES

# Columns of ``shared`` (int64), one row per block, read by every tier: since when it is idle, its class, and the log
# odds of its reuse as :func:`autotune.core.decide.fixed.reuse_odds` counts them.
IDLE_SINCE_NS, CLASS, ODDS = range(3)
N_SHARED_COLUMNS = 3
NO_ROW = -1

# Columns of ``requests`` (int64). What is not known is -1.
R_INPUT_TOKENS, R_OUTPUT_TOKENS, R_STOP, R_START_NS, R_FINISH_NS = range(5)
R_BEFORE, R_TURN, R_CHAIN, R_SESSION_END, R_PRIORITY = range(5, 10)
N_REQUEST_COLUMNS = 10

# Columns of ``averages`` (float64), one row per request.
A_CHAIN_GAP_S, A_EXPECTED_IDLE_S = range(2)
N_AVERAGE_COLUMNS = 2

# Columns of ``rows`` (int64). BLOCKS are those whose fate the cache decides: what overlaps a running request is out.
W_REQUEST, W_USES, W_FIRST_NS, W_IDLE_NS, W_GAP_NS, W_PREVIOUS_GAP_NS, W_CLASS, W_BLOCKS = range(8)
W_ODDS = 8
N_ROW_COLUMNS = 9

# Columns of ``recent`` (float64).
RECENT_SHORT, RECENT_LONG = range(2)

# Columns of ``events`` (int64): blocks of a row that were used again, for the first time, after so long.
E_ROW, E_GAP_NS, E_BLOCKS = range(3)
N_EVENT_COLUMNS = 3

# Entries of ``ints`` (int64).
H_ROWS, H_EVENTS, H_BLOCK_TOKENS, H_FORGET_NS = range(4)
N_HISTORY_INTS = 4


class History(NamedTuple):
    """Arrays of the blocks' past.

    Attributes:
        ints: ``(N_HISTORY_INTS,)`` int64: rows and events so far, tokens per block, and how long an unused block is
            remembered.
        row_of: ``(n_blocks,)`` int32 newest row of each block.
        shared: ``(n_blocks, N_SHARED_COLUMNS)`` int64.
        children: ``(n_blocks,)`` int32 different blocks that have continued each block.
        requests: ``(n_requests, N_REQUEST_COLUMNS)`` int64.
        averages: ``(n_requests, N_AVERAGE_COLUMNS)`` float64.
        rows: ``(n_rows, N_ROW_COLUMNS)`` int64.
        recent: ``(n_rows, 2)`` float64 decayed use counts.
        features: ``(window, N_FEATURES)`` float64; row ``i`` stands at ``i % window``.
        events: ``(n_events, N_EVENT_COLUMNS)`` int64.
    """

    ints: npt.NDArray[np.int64]
    row_of: npt.NDArray[np.int32]
    shared: npt.NDArray[np.int64]
    children: npt.NDArray[np.int32]
    requests: npt.NDArray[np.int64]
    averages: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    recent: npt.NDArray[np.float64]
    features: npt.NDArray[np.float64]
    events: npt.NDArray[np.int64]


def empty_history(n_blocks: int, n_requests: int, *, block_tokens: int, window: int, forget_ns: int) -> History:
    """The past of blocks that nobody has used yet; rows and events have no place yet, see :func:`with_room`."""
    ints = np.zeros(N_HISTORY_INTS, np.int64)
    ints[H_BLOCK_TOKENS], ints[H_FORGET_NS] = block_tokens, forget_ns
    return History(
        ints=ints,
        row_of=np.full(n_blocks, NO_ROW, np.int32),
        shared=np.zeros((n_blocks, N_SHARED_COLUMNS), np.int64),
        children=np.zeros(n_blocks, np.int32),
        requests=np.full((n_requests, N_REQUEST_COLUMNS), -1, np.int64),
        averages=np.full((n_requests, N_AVERAGE_COLUMNS), -1.0),
        rows=np.zeros((0, N_ROW_COLUMNS), np.int64),
        recent=np.zeros((0, 2)),
        features=np.zeros((max(1, window), N_FEATURES)),
        events=np.zeros((0, N_EVENT_COLUMNS), np.int64),
    )


def with_room(history: History, n: int) -> History:
    """The same past with room for at least ``n`` more rows and events; grows by halves, so that copying stays cheap."""
    rows_needed, events_needed = int(history.ints[H_ROWS]) + n, int(history.ints[H_EVENTS]) + n
    if rows_needed <= len(history.rows) and events_needed <= len(history.events):
        return history
    size = max(rows_needed, events_needed, len(history.rows) * 3 // 2)
    return history._replace(
        rows=_grown(history.rows, size), recent=_grown(history.recent, size), events=_grown(history.events, size)
    )


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    larger = np.zeros((size, array.shape[1]), array.dtype)
    larger[: len(array)] = array
    return larger
