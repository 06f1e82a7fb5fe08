"""Limits that a setting must keep, by name; each value is at most 0 where the limit is kept."""

from __future__ import annotations

from collections.abc import Callable

from autotune.core.errors import SearchError
from autotune.search.objectives.latency import queue_of, relative_change
from autotune.search.problem import Evaluation

Constraint = Callable[[Evaluation, Evaluation], float]


def ttft_p99(evaluation: Evaluation, baseline: Evaluation) -> float:
    """TTFT p99 not above LRU's."""
    return relative_change(queue_of(evaluation).quantile_s(0.99), queue_of(baseline).quantile_s(0.99))


def stored_bytes(evaluation: Evaluation, baseline: Evaluation) -> float:
    """No more bytes stored than LRU stores."""
    return relative_change(evaluation.totals.stored_bytes, baseline.totals.stored_bytes)


CONSTRAINTS: dict[str, Constraint] = {"ttft_p99": ttft_p99, "stored_bytes": stored_bytes}
NEEDS_QUEUE = frozenset({"ttft_p99"})


def constraint(name: str) -> Constraint:
    """The constraint of that name.

    Raises:
        SearchError: there is none; the message lists those there are.
    """
    if name not in CONSTRAINTS:
        raise SearchError("a constraint is known by name", got=repr(name), remedy=f"known: {', '.join(CONSTRAINTS)}")
    return CONSTRAINTS[name]
