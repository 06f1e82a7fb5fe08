"""The learned rule in plain Python, object by object: what an engine runs, and what the compiled loops must equal.

:mod:`~autotune.core.learned.history` remembers what became of blocks, :mod:`~autotune.core.learned.classifier` sorts
their runs into classes, :mod:`~autotune.core.learned.keys` ranks by class, age and seconds at stake, and
:mod:`~autotune.core.learned.policy` orders the residents of one tier by those ranks. The arithmetic is that of
:mod:`autotune.core.decide`, to the last bit.
"""

from __future__ import annotations

from autotune.core.learned.classifier import Classifier
from autotune.core.learned.history import RunHistory
from autotune.core.learned.keys import IN_USE_KEY, HazardKeys, LearnedRules
from autotune.core.learned.policy import HazardPolicy
from autotune.core.learned.runs import RequestFacts, Run, RunSpan

__all__ = [
    "IN_USE_KEY",
    "Classifier",
    "HazardKeys",
    "HazardPolicy",
    "LearnedRules",
    "RequestFacts",
    "Run",
    "RunHistory",
    "RunSpan",
]
