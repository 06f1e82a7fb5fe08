"""Seconds of prefill from what an engine reports: ``fixed + linear * n + quadratic * n (n + 1) / 2``.

Of a prompt whose first ``found`` tokens are there already, ``computed`` more take the difference of two such terms; the
fixed part is paid once per request. One observation may also stand for several requests, as counters of an engine give
them: everything in it is then a sum, which the formula allows because it is linear.

The table's figures are the prior. What was measured says how far they are off as a whole, and the less of that is
known, the more of the table stays; each estimate says with what weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.core.estimates import Estimate
from autotune.costs.model import PREFILL_FIXED, PREFILL_LINEAR, PREFILL_QUADRATIC, TABLE_SPREAD_FRAC
from autotune.costs.robust import Column, Prior, RobustFit, fit_robustly
from autotune.costs.window import SampleWindow

MAX_SAMPLES = 4_096
WINDOW_S = 3_600.0
_SCALE_WEIGHT = 4.0  # observations that the table's own level counts for
_TYPICAL_TOKENS = 512.0
_NAMES = ((PREFILL_FIXED, "s"), (PREFILL_LINEAR, "s/token"), (PREFILL_QUADRATIC, "s/token pair"))


@dataclass(frozen=True, slots=True)
class PrefillSamples:
    """Observed prefills as columns; a row is one request or the sum over several.

    Attributes:
        requests: ``(n,)`` requests in the row.
        tokens: ``(n,)`` tokens computed.
        pairs: ``(n,)`` pairs of tokens that attended to each other.
        seconds: ``(n,)`` seconds of prefill.
    """

    requests: Column
    tokens: Column
    pairs: Column
    seconds: Column

    @classmethod
    def of(cls, found_tokens: npt.ArrayLike, computed_tokens: npt.ArrayLike, seconds: npt.ArrayLike) -> PrefillSamples:
        """From single requests: tokens that were there, tokens computed, seconds; all ``(n,)``.

        Raises:
            ConfigError: the columns differ in length, or a value is negative or no number.
        """
        found, computed, taken = (
            np.atleast_1d(np.asarray(c, np.float64)) for c in (found_tokens, computed_tokens, seconds)
        )
        if not found.shape == computed.shape == taken.shape:
            raise ConfigError("columns of prefills have one length", got=(found.shape, computed.shape, taken.shape))
        table = np.stack([found, computed, taken])
        if not (np.isfinite(table) & (table >= 0.0)).all():
            raise ConfigError("tokens and seconds of prefills are numbers, none negative", got="others among them")
        return cls(np.ones_like(found), computed, attended_pairs(found, computed), taken)


@dataclass(frozen=True, slots=True)
class RecomputeFit:
    """What a prefill takes, with bounds.

    Attributes:
        fixed_s: Seconds per request whatever its length; no part of a block's value.
        linear_s: Seconds per token.
        quadratic_s: Seconds per pair of tokens.
        samples: Rows that it rests on.
        fit: Coefficients in this order, with their covariance.
        source: Where they come from, with the weight of each part.
    """

    fixed_s: float
    linear_s: float
    quadratic_s: float
    samples: int
    fit: RobustFit
    source: str

    def seconds(self, found_tokens: float, computed_tokens: float) -> tuple[float, float, float]:
        """Seconds that computing these tokens takes beyond the fixed part, and both ends of the 95 % interval."""
        pairs = float(attended_pairs(np.float64(found_tokens), np.float64(computed_tokens)))
        return self.fit.predict([0.0, computed_tokens, pairs])

    def estimates(self, age_s: float | None) -> tuple[Estimate, ...]:
        """The three coefficients."""
        return tuple(
            Estimate(name, *self.fit.interval(column), unit, self.samples, age_s, self.source)
            for column, (name, unit) in enumerate(_NAMES)
        )


class RecomputeModel:
    """Learns seconds of prefill from observations as they come; the newest within a window count.

    Args:
        table: What is assumed before anything was measured.
        max_samples: Most observations kept.
        window_s: Observations older than this no longer count.
    """

    def __init__(self, table: CostProfile, max_samples: int = MAX_SAMPLES, window_s: float = WINDOW_S) -> None:
        self._table = table
        self.window = SampleWindow(4, max_samples, window_s)

    def observe(self, at_s: float, found_tokens: float, computed_tokens: float, seconds: float) -> None:
        """One request's prefill; what says nothing (no tokens, or seconds that nobody measured) is passed over."""
        self.observe_sum(
            at_s,
            1,
            computed_tokens,
            float(attended_pairs(np.float64(found_tokens), np.float64(computed_tokens))),
            seconds,
        )

    def observe_sum(self, at_s: float, requests: float, tokens: float, pairs: float, seconds: float) -> None:
        """The same for several requests together, as counters tell them over an interval."""
        if requests > 0.0 and tokens > 0.0 and 0.0 < seconds < np.inf:
            self.window.add(at_s, requests, tokens, pairs, seconds)

    def fit(self, now_s: float) -> RecomputeFit:
        """The coefficients as of now."""
        return fit_recompute(PrefillSamples(*self.window.columns(now_s)[1:]), self._table)


def attended_pairs(found_tokens: Column | np.float64, computed_tokens: Column | np.float64) -> Column:
    """Pairs of tokens that attend to each other while ``computed`` tokens follow ``found`` ones."""
    return np.asarray(computed_tokens * found_tokens + computed_tokens * (computed_tokens + 1.0) * 0.5)


def fit_recompute(samples: PrefillSamples, table: CostProfile, *, intercept: bool = True) -> RecomputeFit:
    """Robust fit with a table as prior.

    Args:
        samples: What was seen; none at all gives the table back.
        table: Source of the prior.
        intercept: Whether a request may take fixed seconds beside those of its tokens.
    """
    columns = np.stack([samples.requests, samples.tokens, samples.pairs], axis=1)
    prior, scale = _prior(columns, samples.seconds, table)
    if not intercept:
        prior.spread[0] = 1e-12
    fit = fit_robustly(columns, samples.seconds, prior)
    n = len(samples.seconds)
    fixed_s, linear_s, quadratic_s = map(float, fit.coefficients)
    return RecomputeFit(fixed_s, linear_s, quadratic_s, n, fit, _source(table, fit, n, scale))


def _prior(columns: Column, seconds: Column, table: CostProfile) -> tuple[Prior, float]:
    """The table, brought to the level that was measured; the further off it was, the less it is believed."""
    shape = np.array([0.0, table.prefill_linear_s, table.prefill_quadratic_s])
    off = table_level(columns @ shape, seconds, _SCALE_WEIGHT)
    mean = shape * np.exp(off)
    spread = mean * (TABLE_SPREAD_FRAC + abs(off))
    spread[0] = np.median(seconds / columns[:, 0]) if len(seconds) else float(table.prefill_s(_TYPICAL_TOKENS))
    spread[1:] = np.maximum(spread[1:], 1e-3 * mean[1] / _TYPICAL_TOKENS)
    return Prior(mean, spread), float(np.exp(off))


def table_level(expected_s: Column, seconds: Column, weight: float) -> float:
    """Logarithm of how many times longer things take than a table says; drawn towards 0 where few were seen."""
    usable = expected_s > 0.0
    n = float(usable.sum())
    return float(np.median(np.log(seconds[usable] / expected_s[usable]))) * n / (n + weight) if n else 0.0


def _source(table: CostProfile, fit: RobustFit, n: int, scale: float) -> str:
    if n == 0:
        return table.source
    linear, quadratic = fit.prior_share[1:]
    return (
        f"{n} prefills measured; weight of the table times {scale:.3g}: linear {linear:.0%}, quadratic {quadratic:.0%} "
        f"({table.source})"
    )
