"""Hints of clients in a trace reach the simulated engine wherever it runs under a learned rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.core.history import A_EXPECTED_IDLE_S, R_PRIORITY, R_SESSION_END
from autotune.core.trace import Trace
from autotune.core.trace_hints import RequestHints, TraceHints
from autotune.online.loop import Learned
from autotune.online.past import learn_past, rules_for
from autotune.online.settings import OnlineSettings
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.obeying import simulate_rules
from autotune.testing.streams import Ask, make_costs, make_trace

COSTS = make_costs()
ENGINE = CacheConfig(60, 180)


def conversations(n: int = 1200, seed: int = 3) -> Trace:
    """Conversations of up to four turns, of which the client says when they end."""
    rng = np.random.default_rng(seed)
    asks, told, time_s = [], [], 0.0
    open_chains: list[list[int]] = []
    for i in range(n):
        time_s += float(rng.exponential(0.5))
        goes_on = open_chains and rng.random() < 0.6
        chain = open_chains.pop(int(rng.integers(len(open_chains)))) if goes_on else []
        blocks = [*chain, *(10 * i + k for k in range(3))]
        ends = len(blocks) >= 12 or rng.random() < 0.4
        if not ends:
            open_chains.append(blocks)
        asks.append(Ask(time_s, blocks))
        told.append(RequestHints(session_end=int(ends)))
    return replace(make_trace(asks), hints=TraceHints.of(told))


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The conversations with what their clients told."""
    return conversations()


def learned_from(trace: Trace) -> Learned:
    """What is learned from a trace."""
    learned = learn_past(trace, ENGINE, COSTS, OnlineSettings())
    assert isinstance(learned, Learned)
    return learned


def test_a_trace_without_hints_gives_none(trace: Trace) -> None:
    """Absent hints are absent, not unknown ones."""
    assert hints_of(replace(trace, hints=None)) is None


def test_they_are_what_the_engine_remembers(trace: Trace) -> None:
    """Every request has the three hints of its row of the trace."""
    told = [RequestHints(i % 3 - 1, float(i), i) for i in range(trace.n_requests)]
    hints = TraceHints.of(told)
    history = LearnedCache(trace, ENGINE, COSTS, hints=hints_of(replace(trace, hints=hints))).history
    assert np.array_equal(history.requests[:, R_SESSION_END], hints.session_end)
    assert np.array_equal(history.requests[:, R_PRIORITY], hints.priority)
    assert np.array_equal(history.averages[:, A_EXPECTED_IDLE_S], hints.expected_idle_s)


def test_what_is_learned_from_a_trace_uses_its_hints(trace: Trace) -> None:
    """With ends that are told the model has that feature; the same trace without them has not."""
    assert "session_end" in learned_from(trace).model.features
    assert "session_end" not in learned_from(replace(trace, hints=None)).model.features


def test_what_is_obeyed_on_a_trace_uses_its_hints(trace: Trace) -> None:
    """The hints of the trace count as those that are given, and without them the rule does something else."""
    rules, silent = rules_for(learned_from(trace), 1.0), replace(trace, hints=None)
    by_trace = simulate_rules(trace, ENGINE, COSTS, rules)
    given = simulate_rules(silent, ENGINE, COSTS, rules, hints=hints_of(trace))
    assert np.array_equal(by_trace.host_hit, given.host_hit)
    assert not np.array_equal(by_trace.host_hit, simulate_rules(silent, ENGINE, COSTS, rules).host_hit)
