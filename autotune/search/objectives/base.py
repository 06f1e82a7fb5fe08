"""The contract of an objective."""

from __future__ import annotations

from typing import Protocol

from autotune.search.problem import Evaluation


class Objective(Protocol):
    """What a setting is worth, relative to LRU."""

    @property
    def name(self) -> str:
        """Registered name."""

    @property
    def needs_queue(self) -> bool:
        """Whether it looks at latencies, so that the queueing model has to run."""

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """To be minimised; 0 is as good as LRU, -0.1 saves a tenth."""
