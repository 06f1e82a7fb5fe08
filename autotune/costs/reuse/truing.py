"""Scores made true on the newest rows whose fate is known: stretched and moved, so that no two rows change places.

Trees of which every leaf is pulled towards no difference tell too little of it, and what comes back drifts. Both are
mended by one slope and one offset of the log odds.

Source: Platt, "Probabilistic Outputs for Support Vector Machines", 1999, with a normal prior around no change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_NEWEST_FRAC = 0.5
_MAX_ROWS = 2_000
_PRIOR_ROWS = 40.0
_STEPS = 25
_CLOSE = 1e-6
_LEAST_SLOPE = 0.2
_MOST_SLOPE = 5.0


@dataclass(frozen=True, slots=True)
class Fates:
    """Blocks of rows, oldest first, and what became of them.

    Attributes:
        blocks: ``(n,)`` blocks of each row.
        came_back: ``(n,)`` how many of them came back within the horizon.
    """

    blocks: npt.NDArray[np.float64]
    came_back: npt.NDArray[np.float64]

    def newest(self) -> npt.NDArray[np.int64]:
        """Indices of the newest rows, at most some thousands, evenly spaced."""
        n = len(self.blocks)
        first = int(n * (1.0 - _NEWEST_FRAC))
        return np.arange(first, n, 1 + (n - first) // _MAX_ROWS)

    def of(self, chosen: npt.NDArray[np.int64]) -> Fates:
        """Those of some rows."""
        return Fates(self.blocks[chosen], self.came_back[chosen])


@dataclass(frozen=True, slots=True)
class Line:
    """What becomes of log odds: ``slope`` times them, plus ``offset``."""

    slope: float = 1.0
    offset: float = 0.0

    def of(self, log_odds: float) -> float:
        """The true log odds."""
        return self.slope * log_odds + self.offset


AS_FITTED = Line()


def true_line(scores: npt.NDArray[np.float64], fates: Fates) -> Line:
    """What makes scores ``(n,)``, in log odds, true to the fates of their rows, n > 0; by Newton's method.

    The blocks of a row share their fate, so evidence is counted in rows of the size in which the usual block lies.
    """
    usual_blocks = float((fates.blocks**2).sum() / fates.blocks.sum())
    weights, came_back = fates.blocks / usual_blocks, fates.came_back / usual_blocks
    middle = float((weights * scores).sum() / weights.sum())
    apart = scores - middle
    slope, moved = 1.0, 0.0
    for _ in range(_STEPS):
        told = 0.5 + 0.5 * np.tanh(0.5 * (slope * apart + middle + moved))
        excess, spread = weights * told - came_back, weights * told * (1.0 - told)
        down = float(excess.sum()) + _PRIOR_ROWS * moved
        turn = float((excess * apart).sum()) + _PRIOR_ROWS * (slope - 1.0)
        both = float((spread * apart).sum())
        move = float(spread.sum()) + _PRIOR_ROWS
        bend = float((spread * apart * apart).sum()) + _PRIOR_ROWS
        whole = move * bend - both * both
        step, tilt = (bend * down - both * turn) / whole, (move * turn - both * down) / whole
        moved -= min(max(step, -1.0), 1.0)
        slope = min(max(slope - min(max(tilt, -1.0), 1.0), _LEAST_SLOPE), _MOST_SLOPE)
        if max(abs(step), abs(tilt)) < _CLOSE:
            break
    return Line(slope, moved + middle * (1.0 - slope))
