"""Rows whose reuse follows a known law, for the tests of the fit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import DEPTH_TOKENS, EXPECTED_IDLE_S, GAP_S, N_FEATURES, STOP_CODE
from autotune.costs.reuse import ReuseSettings, Rows

SPAN_S = 3600.0
QUICK = ReuseSettings(trees=20, min_samples_leaf=20, l2=1.0)


def true_odds(features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Log odds that a run comes back at all: two main effects and an interaction."""
    deep, idle = np.log10(features[:, DEPTH_TOKENS]), np.log10(features[:, GAP_S])
    after_tool = features[:, STOP_CODE] == 2.0
    return 1.5 * (deep - 2.0) - idle + np.where(after_tool & (idle < 1.0), 2.0, 0.0)


def make_rows(n: int = 4000, seed: int = 0, span_s: float = SPAN_S) -> Rows:
    """Rows over a span of time; a tenth of the runs that come back do so by half; hints are unknown."""
    rng = np.random.default_rng(seed)
    features = np.round(10.0 ** rng.uniform(0.0, 4.0, (n, N_FEATURES)), 3)
    features[:, STOP_CODE] = rng.integers(0, 5, n)
    features[:, EXPECTED_IDLE_S:] = -1.0
    time_s = np.sort(rng.uniform(0.0, span_s, n))
    n_blocks = rng.integers(1, 20, n).astype(np.int32)
    gap_s = rng.exponential(100.0, n) + 1.0
    comes = rng.random(n) < 1.0 / (1.0 + np.exp(-true_odds(features)))
    row = np.flatnonzero(comes & (time_s + gap_s <= span_s)).astype(np.int32)
    whole = rng.random(len(row)) < 0.9
    blocks = np.where(whole, n_blocks[row], np.maximum(1, n_blocks[row] // 2)).astype(np.int32)
    return Rows(features, time_s, n_blocks, row, gap_s[row], blocks)
