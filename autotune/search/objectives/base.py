"""The contract of an objective."""

from __future__ import annotations

from typing import Protocol

from autotune.search.problem import Evaluation


class Objective(Protocol):
    """What a setting is worth, relative to LRU.

    Attributes:
        name: Registered name.
        needs_queue: Whether it looks at latencies, so that the queueing model has to run.
    """

    name: str
    needs_queue: bool

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """To be minimised; 0 is as good as LRU, -0.1 saves a tenth."""
