"""What a second of keeping a block is worth, by class and age."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.reuse.curves import mean_survival
from autotune.core.reuse.model import ReuseModel

_FOR_EVER_S = 1e300  # stands for an endless stay, so that none of nothing is still nothing


def gain_table(model: ReuseModel, device_age_s: float) -> npt.NDArray[np.float64]:
    """Expected reuses per block-second from now on, ``(16, 49)`` by class and age bin.

    ``max over tau > 0 of [F(a + tau) - max(F(a), F(D))]+ / [A(a + tau) - A(a)]``: the block is kept until reuse or
    until its age is ``a + tau``, whichever comes first, and the best such plan counts. Times the seconds that a reuse
    saves, this is the rank of the block. a is the geometric middle of the age bin.

    Within an age bin the hazard is constant and the ratio moves towards it from one side, so the best plan ends at an
    edge, never, or at once; where it ends at once, the ratio is the hazard itself.

    Args:
        model: The model.
        device_age_s: D: age up to which a reuse is a hit on the tier above and gains nothing here; 0 = there is none.
    """
    edges_s = np.array(sorted((*model.edges_s, device_age_s)))
    starts_s, ends_s = np.concatenate([[0.0], edges_s]), np.concatenate([edges_s, [np.inf]])
    hazard = model.hazard_per_s[:, np.searchsorted(model.edges_s, starts_s, side="right")]
    ages_s = bin_ages_s(model.edges_s)
    begin = np.searchsorted(edges_s, ages_s, side="right")
    whole = _stays(hazard, ends_s - starts_s)
    rest = _stays(hazard[:, begin], ends_s[begin] - ages_s)
    best = np.where(ages_s >= device_age_s, model.hazard_per_s, 0.0)
    alive, gained, stay_s = np.ones_like(best), np.zeros_like(best), np.zeros_like(best)
    for k in range(len(starts_s)):
        reached, starts_here = begin <= k, begin == k
        lost, spent_s = (
            np.where(reached, np.where(starts_here, part, all_of[:, [k]]), 0.0)
            for part, all_of in zip(rest, whole, strict=True)
        )
        stay_s += alive * spent_s
        if starts_s[k] >= device_age_s:
            gained += alive * lost
        alive *= 1.0 - lost
        np.maximum(best, np.where(stay_s > 0.0, gained / np.where(stay_s > 0.0, stay_s, 1.0), 0.0), out=best)
    return best


def _stays(
    hazard: npt.NDArray[np.float64], widths_s: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Share used again within a stretch of constant hazard, and the expected stay in it, both ``(n, n_widths)``."""
    endless = np.isinf(widths_s)
    finite_s = np.where(endless, 1.0, widths_s)
    mean = mean_survival(hazard * finite_s)
    lost = np.where(endless, np.where(hazard > 0.0, 1.0, 0.0), hazard * finite_s * mean)
    for_ever_s = np.where(hazard > 0.0, 1.0 / np.where(hazard > 0.0, hazard, 1.0), _FOR_EVER_S)
    return lost, np.where(endless, for_ever_s, finite_s * mean)


def bin_ages_s(edges_s: tuple[float, ...]) -> npt.NDArray[np.float64]:
    """The age that stands for each age bin: half the first edge, geometric middles, the last edge."""
    edges = np.array(edges_s)
    return np.concatenate([[edges[0] * 0.5], np.sqrt(edges[:-1] * edges[1:]), [edges[-1]]])
