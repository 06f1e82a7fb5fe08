"""Objectives and constraints on evaluations small enough to work out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.errors import SearchError, UnknownNameError
from autotune.search.objectives.base import Objective
from autotune.search.objectives.constraints import constraint
from autotune.search.objectives.latency import Goodput, TtftP95, Weighted
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.problem import Evaluation, Problem, window_sums
from autotune.search.tune import load_objective
from autotune.sim.queueing import QueueConfig

EvaluationOf = Callable[..., Evaluation]
NAMES = registry.names(registry.OBJECTIVES)
LATENCY = (TtftP95(), Goodput(), Weighted())


@pytest.mark.parametrize("name", NAMES)
def test_lru_is_zero(name: str, device_only: Problem) -> None:
    """LRU's own evaluation is worth 0 under every objective, latencies included."""
    problem = replace(device_only, queue=QueueConfig(servers=4))
    assert load_objective(name).value(problem.baseline, problem.baseline) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_knows_its_name(name: str) -> None:
    """What is registered under a name says that name, and net seconds alone need no queue."""
    objective = load_objective(name)
    assert objective.name == name
    assert objective.needs_queue == (name != "net_seconds")


def test_an_unknown_objective_lists_the_known() -> None:
    """The error names what there is."""
    with pytest.raises(UnknownNameError, match="did you mean 'net_seconds'"):
        load_objective("net_second")


def test_net_seconds_takes_off_one_standard_error(evaluation_of: EvaluationOf) -> None:
    """A fifth saved in two of four windows: a tenth, less its standard error √(0.04 / 12)."""
    baseline, policy = evaluation_of([10, 10, 10, 10]), evaluation_of([8, 10, 8, 10])
    assert NetSeconds(risk=0.0, n_windows=4).value(policy, baseline) == pytest.approx(-0.1)
    error = math.sqrt(4 * 0.1**2 / 3) / math.sqrt(4)
    assert NetSeconds(n_windows=4).value(policy, baseline) == pytest.approx(error - 0.1)
    assert NetSeconds(risk=3.0, n_windows=4).value(policy, baseline) == pytest.approx(3 * error - 0.1)


def test_net_seconds_prefers_an_even_gain(evaluation_of: EvaluationOf) -> None:
    """A small gain everywhere beats the same gain in one window."""
    baseline = evaluation_of([10] * 20)
    even, lucky = evaluation_of([9] * 20), evaluation_of([0, 0, *[10] * 18])
    objective = NetSeconds()
    assert objective.value(even, baseline) == pytest.approx(-0.1)
    assert objective.value(even, baseline) < objective.value(lucky, baseline) < 0.0


def test_net_seconds_of_a_loss_is_positive(evaluation_of: EvaluationOf) -> None:
    """What costs a tenth more everywhere is worth a tenth less than LRU."""
    assert NetSeconds().value(evaluation_of([11] * 20), evaluation_of([10] * 20)) == pytest.approx(0.1)


def test_net_seconds_with_one_request_has_no_error(evaluation_of: EvaluationOf) -> None:
    """One request is one window, whose standard error is not known and not taken off."""
    assert NetSeconds().value(evaluation_of([5]), evaluation_of([10])) == pytest.approx(-0.5)


def test_net_seconds_where_lru_costs_nothing(evaluation_of: EvaluationOf) -> None:
    """Where LRU costs nothing there is nothing to save."""
    assert NetSeconds().value(evaluation_of([0, 0]), evaluation_of([0, 0])) == 0.0


def test_ttft_p95_is_relative(evaluation_of: EvaluationOf) -> None:
    """The 95th percentile of 0 to 100 is 95; half of it is -0.5."""
    baseline, policy = (evaluation_of([1] * 101, [factor * i for i in range(101)]) for factor in (1.0, 0.5))
    assert TtftP95().value(policy, baseline) == pytest.approx(-0.5)
    assert TtftP95().value(baseline, policy) == pytest.approx(1.0)


def test_goodput_is_the_gain_in_good_requests(evaluation_of: EvaluationOf) -> None:
    """Three of four requests within 2 s instead of one of four are half of them more."""
    baseline, policy = evaluation_of([1] * 4, [1.0, 3.0, 3.0, 3.0]), evaluation_of([1] * 4, [2.0, 1.0, 1.0, 3.0])
    assert Goodput().value(policy, baseline) == pytest.approx(-0.5)


def test_weighted_adds_seconds_and_latency(evaluation_of: EvaluationOf) -> None:
    """A tenth of the seconds and half of the latency saved: 0.05 + 0.25, or by other weights."""
    baseline, policy = evaluation_of([10] * 20, [4.0] * 20), evaluation_of([9] * 20, [2.0] * 20)
    assert Weighted().value(policy, baseline) == pytest.approx(-0.3)
    assert Weighted(seconds_weight=1.0).value(policy, baseline) == pytest.approx(-0.1)


@pytest.mark.parametrize("objective", LATENCY)
def test_latency_without_a_queue_is_refused(objective: Objective, evaluation_of: EvaluationOf) -> None:
    """An objective on latency says what to give where nobody modelled a queue."""
    evaluation = evaluation_of([10, 10])
    with pytest.raises(SearchError, match=r"needs the queueing model.*--servers"):
        objective.value(evaluation, evaluation)


@pytest.mark.parametrize("objective", [TtftP95(), Weighted()])
def test_latency_where_nobody_waits_under_lru(objective: Objective, evaluation_of: EvaluationOf) -> None:
    """Where LRU answers at once, answering at once is as good and waiting is worse."""
    at_once, waiting = evaluation_of([0] * 4, [0.0] * 4), evaluation_of([0] * 4, [3.0] * 4)
    assert objective.value(at_once, at_once) == 0.0
    assert objective.value(waiting, at_once) > 0.0


@pytest.mark.parametrize(("p99_s", "kept"), [(1.9, True), (2.0, True), (2.1, False)])
def test_ttft_p99_limit(evaluation_of: EvaluationOf, p99_s: float, kept: bool) -> None:
    """The limit is kept up to LRU's own p99."""
    limit, baseline = constraint("ttft_p99"), evaluation_of([1] * 3, [2.0] * 3)
    assert (limit(evaluation_of([1] * 3, [p99_s] * 3), baseline) <= 0.0) == kept


def test_ttft_p99_limit_needs_a_queue(evaluation_of: EvaluationOf) -> None:
    """A limit on latency is refused where nobody modelled a queue."""
    with pytest.raises(SearchError, match="needs the queueing model"):
        constraint("ttft_p99")(evaluation_of([1]), evaluation_of([1]))


@pytest.mark.parametrize(("stored", "lru_stored", "value"), [(3, 4, -0.25), (4, 4, 0.0), (5, 4, 0.25), (0, 0, 0.0)])
def test_stored_bytes_limit(evaluation_of: EvaluationOf, stored: int, lru_stored: int, value: float) -> None:
    """The limit is the relative excess over the bytes that LRU stores."""
    evaluation, baseline = evaluation_of([1], stored_blocks=[stored]), evaluation_of([1], stored_blocks=[lru_stored])
    assert constraint("stored_bytes")(evaluation, baseline) == pytest.approx(value)


def test_stored_bytes_limit_where_lru_stores_nothing(evaluation_of: EvaluationOf) -> None:
    """Where LRU stores nothing, storing anything breaks the limit."""
    evaluation, baseline = evaluation_of([1], stored_blocks=[1]), evaluation_of([1], stored_blocks=[0])
    assert constraint("stored_bytes")(evaluation, baseline) > 0.0


def test_an_unknown_constraint_lists_the_known() -> None:
    """The error names what there is."""
    with pytest.raises(SearchError, match="got 'ttft'; known: ttft_p99, stored_bytes"):
        constraint("ttft")


def test_windows_have_equally_many_requests() -> None:
    """Seven requests in three windows are two, two and three; in twenty they are seven."""
    seconds = np.arange(1.0, 8.0)
    assert window_sums(seconds, 3).tolist() == [3.0, 7.0, 18.0]
    assert window_sums(seconds, 20).tolist() == seconds.tolist()


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.integers(1, 80))
def test_windows_leave_nothing_out(seconds: list[int], n_windows: int) -> None:
    """Windows hold every request once, and their numbers differ by one at most."""
    values, ones = np.array(seconds, np.float64), np.ones(len(seconds))
    assert window_sums(values, n_windows).sum() == values.sum()
    counts = window_sums(ones, n_windows)
    assert len(counts) == min(n_windows, len(seconds))
    assert counts.max() - counts.min() <= 1
