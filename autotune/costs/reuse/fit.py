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
from autotune.costs.reuse.horizon import Labelled, Newest, fit_horizon
from autotune.costs.reuse.rows import NotEnough, ReuseSettings, Rows, weighted_quantiles
from autotune.costs.reuse.sampling import draw, drawn
from autotune.costs.reuse.truing import Fates


def fit_reuse(rows: Rows, now_s: float, settings: ReuseSettings, seed: int) -> ReuseModel | NotEnough:
    """The reuse model of what is known at a moment.

    Args:
        rows: Rows up to ``now_s``, with the reuses that had happened by then.
        now_s: The present; a row counts for a horizon once it is that old.
        settings: How to fit.
        seed: Of the draw of rows and of scikit-learn; the same seed and rows give the same model.
    """
    rng = np.random.default_rng(seed)
    rows = drawn(rows, settings.max_rows, rng)
    if len(rows.event_row) < max(settings.min_events, 1):
        return NotEnough(f"{len(rows.event_row):,} runs of blocks were used again; {settings.min_events:,} are needed")
    horizons_s = _horizons_s(rows, now_s, settings)
    missing = _missing(rows, now_s, max(horizons_s), settings)
    if missing is not None:
        return missing
    bins = Bins.of(rows.features, settings.max_bins)
    binned = bins.of_rows(rows.features)
    near, far = (_horizon(rows, binned, bins, horizon_s, now_s, settings, rng) for horizon_s in horizons_s)
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


def _horizons_s(rows: Rows, now_s: float, settings: ReuseSettings) -> tuple[float, float]:
    """Near and far horizon: quantiles of the gaps by blocks, neither longer than a share of the time that passed."""
    limit_s = settings.max_horizon_frac * (now_s - float(rows.time_s.min()))
    shares = (settings.near_quantile, settings.far_quantile)
    quantiles_s = weighted_quantiles(rows.event_gap_s, rows.event_blocks.astype(np.float64), shares)
    near_s, far_s = (readable(min(quantile_s, limit_s)) for quantile_s in quantiles_s)
    return near_s, max(near_s, far_s)


def _missing(rows: Rows, now_s: float, longest_s: float, settings: ReuseSettings) -> NotEnough | None:
    """What is too little to learn from, if anything."""
    known = int((rows.time_s + longest_s <= now_s).sum())
    needed = max(settings.min_rows, 1)
    if known < needed:
        return NotEnough(
            f"{known:,} runs of blocks are older than the horizon of {longest_s:,.3g} s; {needed:,} are needed"
        )
    if longest_s <= 0.0:
        return NotEnough("no time has passed")
    return None


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
    fates = Fates(rows.n_blocks[known].astype(np.float64), rows.reused_within(horizon_s)[known])
    some, chances = draw(fates.blocks, settings.max_tree_rows, rng)
    labelled = Labelled.of(binned[:, known[some]], fates.blocks[some] / chances, fates.came_back[some] / chances)
    late = fates.newest()
    newest = Newest(binned[:, known[late]], fates.of(late))
    return fit_horizon(labelled, newest, bins, horizon_s, settings, int(rng.integers(2**31)))


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
    low, middle, high = (int(cut) for cut in weighted_quantiles(scores, blocks, (0.25, 0.5, 0.75)))
    return low, middle, high
