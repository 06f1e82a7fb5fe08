"""Are the probabilities true? Reliability on later rows, and a correction where it helps on rows later still."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.core.reuse import SCORE_UNIT, Calibration, HorizonModel, probability, score_rows
from autotune.costs.reuse.rows import NotEnough, Rows, counted

N_BINS = 10
_MAX_POINTS = 48
_DIGITS = 6
_MOST_SHIFT = round(16.0 / SCORE_UNIT)
_HALVINGS = 48
_MEAN_OF_A_NORMAL = 0.7978845608028654  # mean distance of a normal variable from its mean: sqrt(2 / pi)
_LEAST_GAIN = 1.02  # a correction must be better by more than chance moves the error of a slice


@dataclass(frozen=True, slots=True)
class Reliability:
    """Told against seen, in bins that hold equally many blocks.

    Attributes:
        told: ``(n_bins,)`` mean probability.
        seen: ``(n_bins,)`` share of blocks that came back.
        n_blocks: ``(n_bins,)`` blocks in each bin.
        ece: Expected calibration error: mean difference of told and seen, by blocks.
        chance_ece: The error that a model without fault would show on so few rows, for the blocks of a row share their
            fate: what of ``ece`` is chance.
        brier: Mean squared error of the probability, by blocks.
    """

    told: npt.NDArray[np.float64]
    seen: npt.NDArray[np.float64]
    n_blocks: npt.NDArray[np.float64]
    ece: float
    chance_ece: float
    brier: float


def reliability(model: HorizonModel, rows: Rows, now_s: float, n_bins: int = N_BINS) -> Reliability | NotEnough:
    """How true a model's probabilities are on rows that it did not see.

    Args:
        model: The model.
        rows: Rows with what became of them up to ``now_s``; those that are not old enough by then are left out.
        now_s: The present.
        n_bins: At most so many bins.
    """
    matured = rows.older_than(model.horizon_s, now_s)
    if len(matured) == 0:
        return NotEnough(f"no row is older than the horizon of {model.horizon_s:,.4g} s")
    told = probability(model, score_rows(model, matured.features))
    return reliability_of(told, matured.reused_within(model.horizon_s), matured.n_blocks.astype(np.float64), n_bins)


def reliability_of(
    told: npt.NDArray[np.float64], came_back: npt.NDArray[np.float64], blocks: npt.NDArray[np.float64], n_bins: int
) -> Reliability:
    """Told against seen, for rows ``(n,)``, n > 0.

    Args:
        told: Probability of each row.
        came_back: Blocks of the row that came back.
        blocks: Blocks of the row.
        n_bins: At most so many bins.

    Source: Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015, with bins of
    equal weight.
    """
    order = np.argsort(told, kind="stable")
    middle = np.cumsum(blocks[order]) - 0.5 * blocks[order]
    bins = np.empty(len(told), np.intp)
    bins[order] = np.minimum((middle / blocks.sum() * n_bins).astype(np.intp), n_bins - 1)
    weight = counted(bins, blocks, n_bins)
    some = weight > 0.0
    mean = counted(bins, blocks * told, n_bins)[some] / weight[some]
    seen = counted(bins, came_back, n_bins)[some] / weight[some]
    spread = np.sqrt(counted(bins, blocks**2 * told * (1.0 - told), n_bins)[some]) / weight[some]
    squared = came_back * (1.0 - told) ** 2 + (blocks - came_back) * told**2
    return Reliability(
        told=mean,
        seen=seen,
        n_blocks=weight[some],
        ece=float((weight[some] * np.abs(mean - seen)).sum() / weight.sum()),
        chance_ece=float((weight[some] * spread).sum() / weight.sum() * _MEAN_OF_A_NORMAL),
        brier=float(squared.sum() / blocks.sum()),
    )


def calibrated(model: HorizonModel, newest: Rows, later: Rows, now_s: float) -> HorizonModel:
    """The model with a correction, if that makes it truer; else as it is.

    Args:
        model: Fitted on rows before ``newest``.
        newest: What the correction is learnt on.
        later: What decides whether it is used.
        now_s: The present.
    """
    matured = newest.older_than(model.horizon_s, now_s)
    best, told = model, reliability(model, later, now_s)
    if isinstance(told, NotEnough) or len(matured) == 0:
        return model
    for corrected in (shifted(model, matured), replace(model, calibration=isotonic(model, matured))):
        after = reliability(corrected, later, now_s)
        if not isinstance(after, NotEnough) and after.brier * _LEAST_GAIN < told.brier and after.ece < told.ece:
            best, told = corrected, after
    return best


def shifted(model: HorizonModel, matured: Rows) -> HorizonModel:
    """The model with another base, so that on average it tells what was seen.

    Args:
        model: Without a correction.
        matured: At least one row, all of them with blocks and older than the horizon.
    """
    scores = score_rows(model, matured.features)
    blocks = matured.n_blocks.astype(np.float64)
    seen = float(matured.reused_within(model.horizon_s).sum())
    low, high = -_MOST_SHIFT, _MOST_SHIFT
    for _ in range(_HALVINGS):
        middle = (low + high) // 2
        told = float((probability(model, scores + middle) * blocks).sum())
        low, high = (middle, high) if told < seen else (low, middle)
    return replace(model, base=model.base + high)


def isotonic(model: HorizonModel, matured: Rows) -> Calibration:
    """The non-decreasing table from score to probability that fits best.

    Args:
        model: Whose scores they are.
        matured: At least one row, all of them with blocks and older than the horizon.

    Source: scikit-learn, ``IsotonicRegression``: linear between thresholds, constant outside.
    """
    from sklearn.isotonic import IsotonicRegression

    scores = score_rows(model, matured.features)
    blocks = matured.n_blocks.astype(np.float64)
    share = matured.reused_within(model.horizon_s) / blocks
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(
        scores * SCORE_UNIT, share, sample_weight=blocks
    )
    at, told = fitted.X_thresholds_, fitted.y_thresholds_
    kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), _MAX_POINTS)).round().astype(np.intp))
    points = {round(float(at[k]) / SCORE_UNIT): round(float(told[k]), _DIGITS) for k in kept}
    return Calibration(tuple(points), tuple(points.values()))
