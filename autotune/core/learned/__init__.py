"""The learned rule in plain Python, object by object: what an engine runs, and what the compiled loops must equal.

:mod:`~autotune.core.learned.history` remembers what became of blocks, :mod:`~autotune.core.learned.classifier` sorts
their runs into classes, :mod:`~autotune.core.learned.keys` ranks by class, age and seconds at stake, and
:mod:`~autotune.core.learned.policy` orders the residents of one tier by those ranks, and
:mod:`~autotune.core.learned.write_bucket` says what a write budget still allows. The arithmetic is that of
:mod:`autotune.core.decide`, to the last bit.
"""

from __future__ import annotations

from autotune.core.learned.classifier import Classifier
from autotune.core.learned.history import RunHistory
from autotune.core.learned.keys import IN_USE_KEY, Keys, LearnedRules, keys_at
from autotune.core.learned.policy import HazardPolicy
from autotune.core.learned.runs import RequestFacts, Run, RunSpan
from autotune.core.learned.write_bucket import WriteBucket, outranks

__all__ = [
    "IN_USE_KEY",
    "Classifier",
    "HazardPolicy",
    "Keys",
    "LearnedRules",
    "RequestFacts",
    "Run",
    "RunHistory",
    "RunSpan",
    "WriteBucket",
    "keys_at",
    "outranks",
]
