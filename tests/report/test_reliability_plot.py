"""The reliability plot."""

from __future__ import annotations

import json

import numpy as np

from autotune.costs.reuse.calibration import reliability_of
from autotune.report.plots.reliability import reliability_plot


def test_curve_is_told_against_seen() -> None:
    """Each curve has its points and its error in the legend, beside the diagonal; names are text, not markup."""
    curve = reliability_of(np.array([0.2, 0.8]), np.array([5.0, 9.0]), np.array([10.0, 10.0]), n_bins=2)
    figure = json.loads(reliability_plot([("near <60 s>", curve), ("far", curve)]).json())
    diagonal, near, far = figure["data"]
    assert (diagonal["x"], diagonal["y"]) == ([0.0, 1.0], [0.0, 1.0])
    assert (near["x"], near["y"]) == ([0.2, 0.8], [0.5, 0.9])
    assert near["name"] == "near &lt;60 s&gt; (ECE 0.200)"
    assert far["line"]["color"] != near["line"]["color"]
