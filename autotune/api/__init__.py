"""The public API, which the command line itself uses.

>>> import autotune
>>> trace = autotune.Trace.open("sample:conversation")
>>> outcome = autotune.simulate(trace, "lru", device_blocks=1000)
>>> outcome.totals.device_hit_blocks
7883
"""

from __future__ import annotations

from autotune.advise.entry import advise, advise_live, plan
from autotune.advise.plan import PlanRequest
from autotune.api.inputs import DEFAULT_HARDWARE, DEFAULT_MODEL, cost_profile, queue_settings
from autotune.api.policies import Policy
from autotune.api.simulating import Simulation, simulate
from autotune.api.tuning import tune
from autotune.sim.budget import Budget

__all__ = [
    "DEFAULT_HARDWARE",
    "DEFAULT_MODEL",
    "Budget",
    "PlanRequest",
    "Policy",
    "Simulation",
    "advise",
    "advise_live",
    "cost_profile",
    "plan",
    "queue_settings",
    "simulate",
    "tune",
]
