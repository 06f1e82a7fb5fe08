"""Write the presets: settings that a search may start from, each found on a trace that the project carries.

    python policies/make_presets.py [--trials N]

A preset is the middle (median, on the knob's own scale) of the best settings at several capacities, so that it leans
on none of them. A preset is never used where it would be judged on the trace that it was found on: the search starts
from one only when asked to (``kv-autotune tune --preset NAME``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from autotune.api import cost_profile
from autotune.core.files import write_atomically
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.presets import Preset
from autotune.search.problem import Problem
from autotune.search.setting import Setting
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.sim.config import CacheConfig

FOLDER = Path(__file__).parent / "autotune_policies" / "presets"
PRESETS = {"chat": "sample:conversation"}
DEVICE_FRACS = (0.0025, 0.005, 0.01, 0.02)
HOST_PER_DEVICE = 4


def best_settings(source: str, trials: int) -> list[Setting]:
    """The best setting at each capacity, host tier four times the device."""
    trace, costs = Trace.open(source), cost_profile()[1]
    found = []
    for frac in DEVICE_FRACS:
        device = max(1, round(trace.n_blocks * frac))
        problem = Problem(trace, CacheConfig(device, HOST_PER_DEVICE * device), costs, Tier.HOST)
        rows = run_study(problem, load_space(), NetSeconds(), StudyPlan(trials=trials, workers=2))
        found.append(best_of(rows).setting)
    return found


def middle(name: str, source: str, trials: int) -> Preset:
    """The preset in the middle of the best settings."""
    settings = best_settings(source, trials)
    weight = [(1.0 - s.lambda_recency) / s.lambda_recency * s.tau_turnovers for s in settings]
    return Preset(
        name=name,
        made_by=f"policies/make_presets.py --trials {trials}, on {source}",
        lambda_recency=round(float(1.0 / (1.0 + np.median(weight))), 4),
        tau_turnovers=1.0,
        half_life_turnovers=round(float(np.median([s.half_life_turnovers for s in settings])), 1),
        cost_weight=round(float(np.median([s.cost_weight for s in settings])), 3),
        ghost_ratio=round(float(np.median([s.ghost_ratio for s in settings])), 1),
    )


def main() -> None:
    """Write all presets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=100, help="settings to try at each capacity")
    trials = parser.parse_args().trials
    for name, source in PRESETS.items():
        preset = middle(name, source, trials)
        write_atomically(FOLDER / f"{name}.yaml", preset.to_yaml())
        print(f"{name}: {preset.setting()}")


if __name__ == "__main__":
    main()
