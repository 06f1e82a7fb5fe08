"""Curves of a class from its hazard: survival, reuse and expected stay by age.

The exponential is the one of :mod:`autotune.core.decide.arithmetic`, and sums run in one order, so that every machine
computes the same curves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.arithmetic import LN_2, exp_series
from autotune.core.reuse.model import ReuseModel

_LOG2_E = 1.4426950408889634
_LEAST_EXPONENT = -1022.0  # below it, 2 to that power counts as 0
# Below this, 1 - exp(-x) is taken from its power series, which loses no digits there.
_SMALL = 1e-4


@dataclass(frozen=True, slots=True)
class Curves:
    """Cumulative curves of all classes at given ages, each ``(n_classes, n_ages)``.

    Attributes:
        survival: S: share of blocks not used again by that age.
        reused: F = 1 - S.
        stay_s: A: expected seconds until reuse or that age, whichever comes first.
    """

    survival: npt.NDArray[np.float64]
    reused: npt.NDArray[np.float64]
    stay_s: npt.NDArray[np.float64]


def curves(model: ReuseModel, ages_s: npt.NDArray[np.float64]) -> Curves:
    """Curves of all classes at some ages ``(n_ages,)``, which may be infinite."""
    starts_s = np.array((0.0, *model.edges_s))
    hazard = model.hazard_per_s
    widths_s = starts_s[1:] - starts_s[:-1]
    hazard_before = _running_sum(hazard[:, :-1] * widths_s)
    survival_before = exp_minus(hazard_before)
    stay_before = _running_sum(survival_before[:, :-1] * widths_s * mean_survival(hazard[:, :-1] * widths_s))
    bins = np.searchsorted(starts_s[1:], ages_s, side="right")
    since_s = ages_s - starts_s[bins]
    with np.errstate(invalid="ignore"):
        passed = np.where(hazard[:, bins] > 0.0, hazard[:, bins] * since_s, 0.0)
    survival = survival_before[:, bins] * exp_minus(passed)
    alive = survival_before[:, bins]
    within_s = np.where(alive > 0.0, _stay_within(hazard[:, bins], since_s, passed), 0.0)
    return Curves(survival, 1.0 - survival, stay_before[:, bins] + alive * within_s)


def _running_sum(steps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sums before each step and after the last, ``(n, n_steps + 1)``, added from left to right."""
    return np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)


def exp_minus(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(-x), for x of any shape, at least 0 or infinite; the same on every machine."""
    exponent = np.maximum(-x * _LOG2_E, _LEAST_EXPONENT - 1.0)
    whole = np.floor(exponent + 0.5)
    found: npt.NDArray[np.float64] = np.ldexp(exp_series((exponent - whole) * LN_2), whole.astype(np.int64))
    return np.where(exponent < _LEAST_EXPONENT, 0.0, found)


def mean_survival(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean of exp(-u) for u in [0, x]: ``(1 - exp(-x)) / x``, 1 at 0."""
    small = x < _SMALL
    safe = np.where(small, 1.0, x)
    return np.where(small, 1.0 - x * (0.5 - x * (1.0 / 6.0)), (1.0 - exp_minus(safe)) / safe)


def _stay_within(
    hazard: npt.NDArray[np.float64], since_s: npt.NDArray[np.float64], passed: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Expected stay from the start of an age bin on; without end, ``1 / hazard``."""
    endless = np.isinf(since_s)
    finite_s = np.where(endless, 0.0, since_s)
    within_s = finite_s * mean_survival(np.where(endless, 0.0, passed))
    with np.errstate(divide="ignore"):
        return np.where(endless, 1.0 / hazard, within_s)
