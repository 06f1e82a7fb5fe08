"""The reuse model: what it consists of.

Scores are log odds in whole units of 2**-40. Every leaf of the fitted trees is rounded to that unit, which moves a
probability by less than 1e-10, and from there on all sums are exact: in any order, in the file, in the simulator and
in an engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SCORE_BITS = 40
SCORE_UNIT = 2.0**-SCORE_BITS

NO_FEATURE = -1


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """What two features add to a score together, or one feature alone.

    A value's bin is the number of cuts that are smaller than it: a value equal to a cut stays below, as in
    scikit-learn's trees.

    Attributes:
        first: Index of the feature of the rows.
        second: Index of the feature of the columns; -1 = there is one column, the main effect of ``first``.
        first_cuts: Ascending.
        second_cuts: Ascending; empty for a main effect.
        scores: ``(len(first_cuts) + 1, len(second_cuts) + 1)`` int64, in units of 2**-40.
    """

    first: int
    second: int
    first_cuts: tuple[float, ...]
    second_cuts: tuple[float, ...]
    scores: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A non-decreasing table from score to probability: linear between its points, constant outside.

    Attributes:
        scores: Ascending, in units of 2**-40; at least one.
        probabilities: Non-decreasing, one per score.
    """

    scores: tuple[int, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class HorizonModel:
    """Log odds that a block is used again within a horizon.

    Attributes:
        horizon_s: The horizon.
        base: Score before any table, in units of 2**-40.
        tables: What is added; each feature or pair at most once.
        calibration: From score to probability; ``None`` = the logistic function of the score.
    """

    horizon_s: float
    base: int
    tables: tuple[ScoreTable, ...]
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class ReuseModel:
    """Two scores make a class; each class has a curve of reuse by age.

    Attributes:
        features: Names of the features that were known when it was fitted; no table uses another.
        near: Model of the short horizon.
        far: Model of the long horizon.
        near_cuts: ``class = 4 * q1 + q2``, ``q1`` = number of these that are smaller than the near score.
        far_cuts: Four rows, one per ``q1``; ``q2`` = number of that row's cuts that are smaller than the far score.
        edges_s: ``(48,)`` ages, increasing; age bin = number of edges that the age has reached, 0 to 48.
        hazard_per_s: ``(16, 49)`` reuses per block and second, constant within an age bin.
    """

    features: tuple[str, ...]
    near: HorizonModel
    far: HorizonModel
    near_cuts: tuple[int, int, int]
    far_cuts: tuple[tuple[int, int, int], ...]
    edges_s: tuple[float, ...]
    hazard_per_s: npt.NDArray[np.float64]
