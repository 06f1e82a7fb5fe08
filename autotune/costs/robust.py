"""Regression of seconds on what took them: no coefficient below 0, outliers weighted down, a table as prior.

Seconds that an engine reports are never too short by much, but often too long: a request queued, or was computed in one
batch with others. So residuals count relative to what is predicted, and a large one counts for nothing (Tukey's
bisquare). The prior is as many pseudo-observations as its spread is worth beside the noise: where the data say nothing
about a coefficient, it keeps the prior's value and the prior's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from autotune.core.estimates import t_quantile

Column = npt.NDArray[np.float64]

_BISQUARE = 4.685  # Source: Holland and Welsch, 1977: 95 % efficiency where errors are normal
_MAD = 1.4826
_DOUBT = 16.0  # by which a prior is widened to see what the data say by themselves
_ROUNDS = 12
_REWEIGHINGS = 3
_NOISE_FRAC = 0.2  # assumed until enough residuals have been seen …
_NOISE_WEIGHT = 4.0  # … by as many as this
_LEAST_NOISE_FRAC = 1e-3
_FLOOR_FRAC = 0.02  # of the mean prediction, below which no row's weight grows any more


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed about the coefficients before any data.

    Attributes:
        mean: ``(n_columns,)`` values.
        spread: ``(n_columns,)`` standard deviations; infinite = nothing is believed.
    """

    mean: Column
    spread: Column


@dataclass(frozen=True, slots=True)
class RobustFit:
    """Coefficients with what is known about them.

    Attributes:
        coefficients: ``(n_columns,)``, none negative.
        free: ``(n_columns,)`` the same fit without that bound; intervals stand around it.
        covariance: ``(n_columns, n_columns)`` of the free fit.
        prior_share: ``(n_columns,)`` weight of the prior in each, 0 to 1.
        noise_frac: Standard deviation of a row around the fit, as a share of its prediction.
        samples: Rows that counted, those that counted half as a half.
        quantile: By which a standard error becomes half an interval.
    """

    coefficients: Column
    free: Column
    covariance: Column
    prior_share: Column
    noise_frac: float
    samples: float
    quantile: float

    def predict(self, row: npt.ArrayLike) -> tuple[float, float, float]:
        """Value and both ends of the 95 % interval of ``row @ coefficients``; none is negative."""
        columns = np.asarray(row, np.float64)
        value, middle = float(columns @ self.coefficients), float(columns @ self.free)
        half = self.quantile * math.sqrt(max(float(columns @ self.covariance @ columns), 0.0))
        low, high = max(0.0, middle - half), max(0.0, middle + half)
        return value, min(low, value), max(high, value)

    def interval(self, column: int) -> tuple[float, float, float]:
        """Value and both ends for one coefficient."""
        return self.predict([float(place == column) for place in range(len(self.coefficients))])


def fit_robustly(columns: Column, seconds: Column, prior: Prior) -> RobustFit:
    """Fit ``seconds = columns @ coefficients`` with noise in proportion to the prediction.

    Args:
        columns: ``(n_rows, n_columns)``, not negative; no rows at all leave the prior.
        seconds: ``(n_rows,)`` positive.
        prior: Means and spreads; a column without data needs a finite one.
    """
    if len(seconds):
        # A prior that the data contradict is believed no more than that distance allows.
        alone = _fit(columns, seconds, Prior(prior.mean, prior.spread * _DOUBT))
        off = (alone.free - prior.mean) ** 2 - np.diag(alone.covariance)
        prior = Prior(prior.mean, np.sqrt(np.maximum(prior.spread**2, off)))
    return _fit(columns, seconds, prior)


def _fit(columns: Column, seconds: Column, prior: Prior) -> RobustFit:
    # Divided by their own seconds: good enough to begin with.
    scaled, ones = columns / seconds[:, None], np.ones(len(seconds))
    found = _half_of_the_data_wins(scaled, ones, prior)
    for _ in range(_REWEIGHINGS):
        noise = _noise_frac(ones - scaled @ found, None)
        for _ in range(_ROUNDS):
            before, weight = found, _bisquare((ones - scaled @ found) / noise)
            found = _bounded(*_normal_equations(scaled, ones, weight, prior, noise))
            if _is_settled(before, found):
                break
        scaled, ones = _rescaled(columns, seconds, found)
    return _result(scaled, ones, found, prior)


def _is_settled(before: Column, after: Column) -> bool:
    return bool((np.abs(after - before) <= 1e-5 * np.abs(after)).all())


def _rescaled(columns: Column, seconds: Column, found: Column) -> tuple[Column, Column]:
    """Rows divided by their prediction; dividing by the seconds themselves would favour rows that came out short."""
    predicted = columns @ found
    size = np.maximum(predicted, _FLOOR_FRAC * float(predicted.mean()) if len(predicted) else 0.0)
    size = np.where(size > 0.0, size, seconds)
    return columns / size[:, None], seconds / size


def _half_of_the_data_wins(scaled: Column, ones: Column, prior: Prior) -> Column:
    """Least absolute residuals by reweighing: up to almost half of the rows may be anything."""
    found = _bounded(*_normal_equations(scaled, ones, np.ones(len(ones)), prior, _NOISE_FRAC))
    for _ in range(2 * _ROUNDS):
        before, weight = found, 1.0 / np.maximum(np.abs(ones - scaled @ found), 1e-3)
        found = _bounded(*_normal_equations(scaled, ones, weight / weight.mean() if len(ones) else weight, prior, 0.05))
        if _is_settled(before, found):
            break
    return found


def _bisquare(residuals: Column) -> Column:
    inside = np.maximum(0.0, 1.0 - (residuals / _BISQUARE) ** 2)
    return inside * inside


def _noise_frac(residuals: Column, weight: Column | None) -> float:
    """Spread of residuals, with a guess that counts as a few of them."""
    if weight is None:
        spread, n = _MAD * float(np.median(np.abs(residuals))) if len(residuals) else 0.0, float(len(residuals))
    else:
        n = float(weight.sum())
        spread = float(np.sqrt((weight * residuals**2).sum() / n)) if n > 0.0 else 0.0
    thin = _NOISE_WEIGHT / (_NOISE_WEIGHT + n * n / 8.0)
    return max(float(np.sqrt((1.0 - thin) * spread**2 + thin * _NOISE_FRAC**2)), _LEAST_NOISE_FRAC)


def _normal_equations(
    scaled: Column, ones: Column, weight: Column, prior: Prior, noise: float
) -> tuple[Column, Column]:
    """Matrix and right side of the weighted least squares, the prior's pseudo-observations among them."""
    precision = _precision(prior) * noise**2
    weighted = scaled * weight[:, None]
    return scaled.T @ weighted + np.diag(precision), weighted.T @ ones + precision * prior.mean


def _precision(prior: Prior) -> Column:
    """Of each belief: 1 / variance, and next to nothing where nothing is believed, so that no matrix is singular."""
    size = np.where(prior.mean > 0.0, prior.mean, 1.0)
    spread = np.where(np.isfinite(prior.spread), prior.spread, 1e6 * size)
    return 1.0 / spread**2


def _bounded(matrix: Column, right: Column) -> Column:
    """The best solution without a negative part: of the few subsets of columns, the one with the smallest error."""
    n = len(right)
    best, lowest = np.zeros(n), 0.0
    for size in range(n, 0, -1):
        for used in combinations(range(n), size):
            part = np.zeros(n)
            part[list(used)] = _solved(matrix[np.ix_(used, used)], right[list(used)])
            error = float(part @ matrix @ part - 2.0 * right @ part)
            if (part >= 0.0).all() and error < lowest:
                best, lowest = part, error
        if size == n and (best > 0.0).all():
            break
    return best


def _solved(matrix: Column, right: Column) -> Column:
    """Solution of a symmetric system, scaled first: its columns differ by many powers of ten."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return np.asarray(np.linalg.lstsq(matrix / np.outer(scale, scale), right / scale, rcond=1e-12)[0] / scale)


def _result(scaled: Column, ones: Column, found: Column, prior: Prior) -> RobustFit:
    noise = _noise_frac(ones - scaled @ found, None)
    weight = _bisquare((ones - scaled @ found) / noise)
    residuals = ones - scaled @ found
    noise = max(noise, _noise_frac(residuals, weight))
    matrix, right = _normal_equations(scaled, ones, weight, prior, noise)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    inverse = np.linalg.pinv(matrix * np.outer(scale, scale), rcond=1e-12, hermitian=True) * np.outer(scale, scale)
    covariance = noise**2 * inverse
    share = np.clip(np.diag(covariance) * _precision(prior), 0.0, 1.0)
    samples = float(weight.sum())
    quantile = t_quantile(samples + _NOISE_WEIGHT - len(found) if samples else 100.0)
    free = _solved(matrix, right)
    return RobustFit(found, free, covariance, share, noise, samples, quantile)
