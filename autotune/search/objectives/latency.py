"""Objectives on what users wait for: TTFT, goodput, and a weighted mix with net seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.errors import SearchError
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.problem import Evaluation
from autotune.sim.queueing import QueueResult


def queue_of(evaluation: Evaluation) -> QueueResult:
    """The latencies of an evaluation.

    Raises:
        SearchError: the problem was set up without a queue.
    """
    if evaluation.queue is None:
        raise SearchError(
            "an objective on latency needs the queueing model",
            got="a problem without a queue",
            remedy="give --servers N, with a load that these servers can carry",
        )
    return evaluation.queue


def relative_change(value: float, reference: float) -> float:
    """By which share ``value`` is above ``reference``; ``value`` itself where there is nothing to be relative to."""
    return value / reference - 1.0 if reference > 0.0 else value


@dataclass(frozen=True, slots=True)
class TtftP95:
    """95th percentile of the time to first token, relative to LRU's."""

    name: str = "ttft_p95"
    needs_queue: bool = True

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """Relative change of the percentile; below 0 is faster."""
        return relative_change(queue_of(evaluation).quantile_s(0.95), queue_of(baseline).quantile_s(0.95))


@dataclass(frozen=True, slots=True)
class Goodput:
    """Share of requests whose first token comes within the target, relative to LRU's."""

    name: str = "goodput"
    needs_queue: bool = True

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """Minus the gain in the share of good requests."""
        return queue_of(baseline).goodput_frac - queue_of(evaluation).goodput_frac


@dataclass(frozen=True, slots=True)
class Weighted:
    """Half net seconds, half TTFT p95; both relative to LRU's, so they can be added."""

    seconds_weight: float = 0.5
    name: str = "weighted"
    needs_queue: bool = True
    seconds: NetSeconds = field(default_factory=NetSeconds)
    latency: TtftP95 = field(default_factory=TtftP95)

    def value(self, evaluation: Evaluation, baseline: Evaluation) -> float:
        """The weighted sum."""
        seconds = self.seconds.value(evaluation, baseline)
        latency = self.latency.value(evaluation, baseline)
        return self.seconds_weight * seconds + (1.0 - self.seconds_weight) * latency
