"""Net seconds saved, discounted by how unevenly they come."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.search.problem import Evaluation


@dataclass(frozen=True, slots=True)
class NetSeconds:
    """Share of LRU's critical-path seconds that is saved, less its standard error over time windows.

    A setting that wins in one window and loses in the others has learned that window; taking the standard error off
    makes it lose against one that wins a little everywhere, and that one holds up on traffic to come.

    Attributes:
        risk: Standard errors taken off the mean.
        n_windows: Time windows.
    """

    risk: float = 1.0
    n_windows: int = 20
    name: str = "net_seconds"
    needs_queue: bool = False

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """Minus the discounted gain, as a share of LRU's cost."""
        cost_s = evaluation.window_cost_s(self.n_windows)
        baseline_s = baseline.window_cost_s(self.n_windows)
        scale_s = float(baseline_s.mean())
        if scale_s <= 0.0:
            return 0.0
        gain = (baseline_s - cost_s) / scale_s
        error = float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else 0.0
        return self.risk * error - float(gain.mean())
