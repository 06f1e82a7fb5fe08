"""A request finished: its runs get their rows, features and classes, compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import USES
from autotune.core.history import (
    CLASS,
    H_ROWS,
    NO_ROW,
    ODDS,
    R_FINISH_NS,
    R_START_NS,
    W_CLASS,
    W_ODDS,
    W_USES,
    History,
)
from autotune.core.reuse.tables import FAR_BASE, KNOWN, N_NEAR, N_TABLES, NEAR_BASE, ModelArrays
from autotune_policies.kernels.decide import class_of, fill_bins, reuse_odds, score
from autotune_policies.kernels.history import (
    continue_chain,
    count_child,
    end_of_run,
    known_row,
    new_row,
    put_into_row,
    request_features,
    run_features,
)
from autotune_policies.kernels.jit import as_int64, compiled, entry


@compiled
def _classify(h: History, m: ModelArrays, row: int, x: npt.NDArray[np.float64]) -> None:
    """Note class and log odds of a row with the features ``x``; both stay 0 as long as there is no model."""
    if m.ints[KNOWN] == 0:
        return
    fill_bins(x, m.cuts, m.cuts_at, m.bins)
    n_near, n_tables = m.ints[N_NEAR], m.ints[N_TABLES]
    near = score(m.bins, as_int64(0), n_near, m.ints[NEAR_BASE], m.tables, m.maps, m.scores)
    far = score(m.bins, n_near, n_tables, m.ints[FAR_BASE], m.tables, m.maps, m.scores)
    h.rows[row, W_CLASS] = class_of(near, far, m.near_cuts, m.far_cuts)
    h.rows[row, W_ODDS] = reuse_odds(near, far, x[USES])


@compiled
def observe(
    h: History,
    m: ModelArrays,
    ids: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    r: int,
    start_ns: int,
    now_ns: int,
) -> None:
    """Request ``r``, which started at ``start_ns``, finishes now.

    Args:
        h: The past, with room for as many rows and events as the request has blocks.
        m: The reuse model in force.
        ids: Blocks of all requests.
        offsets: Where each request's blocks begin.
        r: The request.
        start_ns: When it looked its blocks up.
        now_ns: When it finished.
    """
    lo, hi = offsets[r], offsets[r + 1]
    h.requests[r, R_START_NS] = start_ns
    h.requests[r, R_FINISH_NS] = now_ns
    if lo == hi:
        return
    known = continue_chain(h, ids, offsets, r, start_ns)
    count_child(h, ids, lo, known, hi)
    window = h.features.shape[0]
    parent_uses = as_int64(0)
    first = lo
    while first < hi:
        old = known_row(h, ids[first], start_ns)
        end = end_of_run(h, ids, first, hi, start_ns)
        x = h.features[h.ints[H_ROWS] % window]
        row = new_row(h, old, end - first, r, start_ns, now_ns)
        request_features(h, x, r, known, hi - lo, start_ns)
        run_features(h, x, row, ids, lo, hi, first, end, now_ns, parent_uses)
        _classify(h, m, row, x)
        put_into_row(h, ids, first, end, row, now_ns)
        parent_uses = h.rows[row, W_USES]
        first = end


@entry
def reclassify(h: History, m: ModelArrays) -> None:
    """Another model is in force: blocks get their new classes, but for those whose features are remembered no more.

    The blocks of a row mostly lie side by side, so each row is classified about once.
    """
    oldest = h.ints[H_ROWS] - h.features.shape[0]
    last = as_int64(NO_ROW)
    for b in range(h.row_of.shape[0]):
        row = as_int64(h.row_of[b])
        if row == NO_ROW or row < oldest:
            continue
        if row != last:
            _classify(h, m, row, h.features[row % h.features.shape[0]])
            last = row
        h.shared[b, CLASS] = h.rows[row, W_CLASS]
        h.shared[b, ODDS] = h.rows[row, W_ODDS]
