"""Confidence bounds of a gain, by drawing time windows again."""

from __future__ import annotations

import numpy as np

from autotune.search.result import NO_GAIN, Interval
from autotune.sim.result import Seconds


def bootstrap_gain(
    baseline_s: Seconds, policy_s: Seconds, confidence: float, n_samples: int, seed: int, block_windows: int = 2
) -> Interval:
    """Share of the baseline's cost that a policy saves, with bounds.

    Neighbouring windows resemble each other, so blocks of ``block_windows`` windows are drawn, around the end to the
    start.

    Args:
        baseline_s: ``(n_windows,)`` seconds under the baseline.
        policy_s: ``(n_windows,)`` seconds under the policy.
        confidence: Probability that the bounds cover the gain.
        n_samples: Times that the windows are drawn.
        seed: Seed of the draws.
        block_windows: Consecutive windows drawn together.

    Source: circular block bootstrap, Politis and Romano, "A circular block-resampling procedure for stationary data",
    1992.
    """
    total_s = float(baseline_s.sum())
    if total_s <= 0.0:
        return NO_GAIN
    n = len(baseline_s)
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, n, size=(n_samples, -(-n // block_windows)))
    drawn = ((starts[:, :, None] + np.arange(block_windows)) % n).reshape(n_samples, -1)[:, :n]
    saved = (baseline_s - policy_s)[drawn].sum(axis=1)
    cost = baseline_s[drawn].sum(axis=1)
    gains = np.where(cost > 0.0, saved / np.where(cost > 0.0, cost, 1.0), 0.0)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(gains, [tail, 1.0 - tail])
    value = float((baseline_s - policy_s).sum()) / total_s
    return Interval(value, min(float(low), value), max(float(high), value))
