"""What the learned policy may see: features hidden from its fits, simulated hints, and how true its fits are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from online_cells import Truth

from autotune.core.costs import CostProfile
from autotune.core.decide import features as f
from autotune.core.reuse import HorizonModel, ReuseModel, probability, score_rows
from autotune.core.trace import Trace
from autotune.costs.reuse import NotEnough, ReuseSettings, Rows, fit_reuse
from autotune.costs.reuse.calibration import N_BINS, reliability_of
from autotune.online import loop, measure
from autotune.online.loop import Learned
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import Hints

ACCURACY = 0.9
GROUPS = {
    "depth and sizes": (
        f.DEPTH_TOKENS,
        f.RUN_TOKENS,
        f.TAIL_TOKENS,
        f.REQUEST_TOKENS,
        f.NEW_TOKENS,
        f.GROWTH_TOKENS,
        f.KNOWN_FRAC,
    ),
    "uses and gaps": (f.USES, f.GAP_S, f.PREVIOUS_GAP_S, f.SINCE_FIRST_S, f.RECENT_60, f.RECENT_600),
    "chain": (f.TURN, f.CHAIN_GAP_S, f.CHAIN_GAP_EWMA_S),
    "children": (f.CHILDREN, f.SIBLINGS, f.USES_TO_PARENT),
    "output length": (f.OUTPUT_TOKENS,),
    "stop reason": (f.STOP_CODE,),
    "output length and stop reason": (f.OUTPUT_TOKENS, f.STOP_CODE),
}
_WINDOW_ROWS = 1_000_000


@contextmanager
def hidden(features: Sequence[int]) -> Iterator[None]:
    """Every fit of the loop goes without these features."""
    without = np.array(features, np.int64)

    def fit_without(rows: Rows, now_s: float, settings: ReuseSettings, seed: int) -> ReuseModel | NotEnough:
        return fit_reuse(rows.without(without), now_s, settings, seed)

    vars(loop)["fit_reuse"] = fit_without
    try:
        yield
    finally:
        vars(loop)["fit_reuse"] = fit_reuse


def session_ends(trace: Trace, accuracy: float, seed: int) -> Hints:
    """Simulated: whether a later request holds the last full block of this one, told wrongly now and then.

    Args:
        trace: The requests, their future included.
        accuracy: Share of requests of which the truth is told.
        seed: Draws the others.
    """
    lengths = np.diff(trace.block_offsets)
    full = np.clip(trace.input_tokens // trace.block_tokens, 1, np.maximum(lengths, 1))
    last_block = trace.block_ids[np.minimum(trace.block_offsets[:-1] + full - 1, trace.n_accesses - 1)]
    last_user = np.full(trace.n_blocks, -1, np.int64)
    np.maximum.at(last_user, trace.block_ids, np.repeat(np.arange(trace.n_requests), lengths))
    ends = last_user[last_block] <= np.arange(trace.n_requests)
    wrong = np.random.default_rng(seed).random(trace.n_requests) >= accuracy
    return Hints(session_end=(ends ^ wrong).astype(np.int64))


def all_rows(trace: Trace, engine: CacheConfig, costs: CostProfile) -> tuple[Rows, float]:
    """Every row of a trace with what became of it up to the end, and that moment."""
    cache = LearnedCache(trace, engine, costs, shadows=False, window_rows=_WINDOW_ROWS)
    cache.run(cache.trace.n_requests)
    return measure.rows_of(cache.history), cache.now_s()


def last(rows: Rows, count: int) -> npt.NDArray[np.int64]:
    """Indices of the newest rows, at most so many."""
    return np.arange(max(0, len(rows) - count), len(rows))


def truths(fits: Sequence[Learned], rows: Rows, end_s: float) -> tuple[Truth, ...]:
    """Each fit on the rows from it until the next one, all taken together; a row counts once its fate is known."""
    edges_s = [fit.fitted_at_s for fit in fits] + [end_s]
    near, far = [], []
    for fit, until_s in zip(fits, edges_s[1:], strict=True):
        unseen = rows.take(np.flatnonzero((rows.time_s > fit.fitted_at_s) & (rows.time_s <= until_s)))
        near.append(_told(fit.model.near, unseen, end_s))
        far.append(_told(fit.model.far, unseen, end_s))
    together = (("near", near), ("far", far))
    return tuple(_truth(horizon, np.concatenate(parts)) for horizon, parts in together if parts)


def _told(model: HorizonModel, unseen: Rows, end_s: float) -> npt.NDArray[np.float64]:
    """Probability, blocks that came back and blocks of each row ``(n, 3)``."""
    known = unseen.older_than(model.horizon_s, end_s)
    told = probability(model, score_rows(model, known.features))
    return np.column_stack([told, known.reused_within(model.horizon_s), known.n_blocks])


def _truth(horizon: str, rows: npt.NDArray[np.float64]) -> Truth:
    if len(rows) == 0:
        return Truth(horizon, 0, 0.0, 0.0)
    found = reliability_of(rows[:, 0], rows[:, 1], rows[:, 2], N_BINS)
    return Truth(horizon, len(rows), found.ece, found.chance_ece)
