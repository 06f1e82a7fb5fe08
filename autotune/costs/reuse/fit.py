"""The fit: horizons, trees, classes, curves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import FEATURES
from autotune.core.decide.reuse_layout import N_QUARTILES
from autotune.core.reuse import HorizonModel, ReuseModel
from autotune.core.reuse.scoring import classes_of
from autotune.costs.reuse.binning import Bins, known_features
from autotune.costs.reuse.hazard import age_edges_s, class_hazards, readable
from autotune.costs.reuse.horizon import Labelled, fit_horizon
from autotune.costs.reuse.rows import NotEnough, ReuseSettings, Rows, weighted_quantile


def fit_reuse(rows: Rows, now_s: float, settings: ReuseSettings, seed: int) -> ReuseModel | NotEnough:
    """The reuse model of what is known at a moment.

    Args:
        rows: Rows up to ``now_s``, with the reuses that had happened by then.
        now_s: The present; a row counts for a horizon once it is that old.
        settings: How to fit.
        seed: Of the draw of rows and of scikit-learn; the same seed and rows give the same model.
    """
    rng = np.random.default_rng(seed)
    rows = _drawn(rows.with_blocks(), settings.max_rows, rng)
    missing = _missing(rows, now_s, settings)
    if missing is not None:
        return missing
    bins = Bins.of(rows.features, settings.max_bins)
    binned = bins.of_rows(rows.features)
    near, far = (
        _horizon(rows, binned, bins, horizon_s, now_s, settings, rng)
        for horizon_s in _horizons_s(rows, now_s, settings)
    )
    near_scores, far_scores = (bins.scores(model, binned, len(FEATURES)) for model in (near, far))
    near_cuts, far_cuts = _class_cuts(near_scores, far_scores, rows.n_blocks.astype(np.float64))
    classes = classes_of(near_cuts, far_cuts, near_scores, far_scores)
    edges_s = age_edges_s(rows, now_s)
    return ReuseModel(
        features=tuple(np.array(FEATURES)[known_features(rows.features)].tolist()),
        near=near,
        far=far,
        near_cuts=near_cuts,
        far_cuts=far_cuts,
        edges_s=edges_s,
        hazard_per_s=class_hazards(rows, classes, now_s, edges_s, settings.pseudo_events),
    )


def _drawn(rows: Rows, limit: int, rng: np.random.Generator) -> Rows:
    """The rows, or as many of them as are allowed, drawn evenly."""
    if len(rows) <= limit:
        return rows
    return rows.take(np.sort(rng.choice(len(rows), limit, replace=False)))


def _missing(rows: Rows, now_s: float, settings: ReuseSettings) -> NotEnough | None:
    """What is too little to learn from, if anything."""
    needed = max(settings.min_events, 1)
    if len(rows.event_row) < needed:
        return NotEnough(f"{len(rows.event_row):,} runs of blocks were used again; {needed:,} are needed")
    longest_s = max(_horizons_s(rows, now_s, settings))
    known = int((rows.time_s + longest_s <= now_s).sum())
    needed = max(settings.min_rows, 1)
    if known < needed:
        return NotEnough(
            f"{known:,} runs of blocks are older than the horizon of {longest_s:,.3g} s; {needed:,} are needed"
        )
    if longest_s <= 0.0:
        return NotEnough("no time has passed")
    return None


def _horizons_s(rows: Rows, now_s: float, settings: ReuseSettings) -> tuple[float, float]:
    """Near and far horizon: quantiles of the gaps by blocks, neither longer than a share of the time that passed."""
    limit_s = settings.max_horizon_frac * (now_s - float(rows.time_s.min()))
    blocks = rows.event_blocks.astype(np.float64)
    near_s, far_s = (
        readable(min(weighted_quantile(rows.event_gap_s, blocks, share), limit_s))
        for share in (settings.near_quantile, settings.far_quantile)
    )
    return near_s, max(near_s, far_s)


def _horizon(
    rows: Rows,
    binned: npt.NDArray[np.uint8],
    bins: Bins,
    horizon_s: float,
    now_s: float,
    settings: ReuseSettings,
    rng: np.random.Generator,
) -> HorizonModel:
    """The model of one horizon, from rows that are old enough for it."""
    known = np.flatnonzero(rows.time_s + horizon_s <= now_s)
    if len(known) > settings.max_tree_rows:
        known = np.sort(rng.choice(known, settings.max_tree_rows, replace=False))
    labelled = Labelled.of(binned[:, known], rows.n_blocks[known], rows.reused_within(horizon_s)[known])
    return fit_horizon(labelled, bins, horizon_s, settings, int(rng.integers(2**31)))


def _class_cuts(
    near: npt.NDArray[np.int64], far: npt.NDArray[np.int64], blocks: npt.NDArray[np.float64]
) -> tuple[tuple[int, int, int], tuple[tuple[int, int, int], ...]]:
    """Quartiles by blocks of the near score, and of the far score within each of them."""
    near_cuts = _quartiles(near, blocks)
    first = np.searchsorted(np.array(near_cuts), near, side="left")
    within = [first == quartile for quartile in range(N_QUARTILES)]
    # Equal near scores can leave a quartile empty; any cuts will do there.
    return near_cuts, tuple(_quartiles(far[some], blocks[some]) if some.any() else (0, 0, 0) for some in within)


def _quartiles(scores: npt.NDArray[np.int64], blocks: npt.NDArray[np.float64]) -> tuple[int, int, int]:
    order = np.argsort(scores, kind="stable")
    running = np.cumsum(blocks[order])
    low, middle, high = (
        int(scores[order[min(int(np.searchsorted(running, share * running[-1])), len(order) - 1)]])
        for share in (0.25, 0.5, 0.75)
    )
    return low, middle, high
