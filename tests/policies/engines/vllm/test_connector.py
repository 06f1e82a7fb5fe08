"""The connector on a real scheduler: load or recompute, features for the manager, and faults that harm nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scheduler_harness import SchedulerHarness, drive, prompt
from scheduler_setup import HarnessConfig

from autotune.core.costs import CostProfile
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.vllm.series import LoadRefusal

pytestmark = pytest.mark.engine("vllm")

OURS = HarnessConfig(
    connector="AutotuneConnector",
    connector_module="autotune_policies.engines.vllm.connector",
    device_blocks=12,
    host_chunks=60,
    max_requests=1,
)
COSTS = CostProfile(
    prefill_linear_s=1e-3,
    prefill_quadratic_s=0.0,
    kv_bytes_per_token=1_000,
    load_bytes_per_s=1e8,
    load_latency_s=5e-3,
    store_bytes_per_s=1e8,
    store_latency_s=0.0,
    disk_bytes_per_s=1e8,
    disk_latency_s=0.0,
    store_exposed_frac=0.0,
    source="test",
)
"""A token costs 1 ms to compute and 10 µs to move; a load of 4 tokens does not pay, one of 8 does."""
RANKED = replace(HostRules.lru(), kind="rank", costs=COSTS)


def loads_of(harness: SchedulerHarness, n_tokens: int) -> int:
    """How many loads a request of this length causes whose whole prompt is on the host alone."""
    wanted = prompt((50, 1, 1), n_tokens)
    for tokens in (wanted, prompt((51, 1), 36), prompt((52, 1), 36)):
        harness.add(tokens, 1)
        harness.drain()
    before = harness.counts.loads
    harness.add(wanted, 1)
    harness.drain()
    return harness.counts.loads - before


def obeying(rules: HostRules) -> SchedulerHarness:
    """An engine under these rules."""
    harness = SchedulerHarness(OURS)
    harness.manager.rules = rules
    harness.connector._ours.follow_policy()
    return harness


def refusals(harness: SchedulerHarness) -> dict[LoadRefusal, int]:
    """Loads that were refused, by reason."""
    counts = harness.connector._ours.counters.loads_refused
    return {reason: count for reason, count in counts.items() if count}


@pytest.mark.parametrize(
    "rules",
    [HostRules.lru(), replace(HostRules.lru(), costs=COSTS), replace(RANKED, costs=None)],
    ids=["stock", "lru with costs", "no costs"],
)
def test_without_costs_or_under_lru_whatever_the_host_has_is_loaded(rules: HostRules) -> None:
    """Stock behaviour: even one block is loaded."""
    assert loads_of(obeying(rules), 5) == 1


@pytest.mark.parametrize(("n_tokens", "n_loads"), [(5, 0), (9, 1), (33, 1)])
def test_a_run_is_loaded_only_if_that_is_faster_than_computing_it(n_tokens: int, n_loads: int) -> None:
    """One block costs 5.04 ms to load and 4 ms to compute, two cost 5.08 ms and 8 ms."""
    harness = obeying(RANKED)
    assert loads_of(harness, n_tokens) == n_loads
    assert refusals(harness) == ({} if n_loads else {LoadRefusal.BREAK_EVEN: 1})


def test_runs_below_the_policys_minimum_are_recomputed() -> None:
    """``min_load_tokens`` decides before any costs, under every kind of policy."""
    harness = obeying(replace(HostRules.lru(), min_load_tokens=12))
    assert loads_of(harness, 9) == 0
    assert refusals(harness) == {LoadRefusal.TOO_SHORT: 1}
    assert loads_of(obeying(replace(HostRules.lru(), min_load_tokens=8)), 9) == 1


def test_a_measured_slow_link_changes_the_decision() -> None:
    """After loads that took far longer than the policy assumes, the same run is recomputed."""
    harness = obeying(RANKED)
    link = harness.connector._ours._link
    for size in range(1, 12):
        link.observe(1, size * 1e3, 1.0 * size)
    assert loads_of(harness, 17) == 0
    assert refusals(harness) == {LoadRefusal.BREAK_EVEN: 1}


def test_finished_loads_teach_the_speed_of_the_link() -> None:
    """The worker's reports of loads reach the estimate; stores do not."""
    harness = obeying(HostRules.lru())
    assert loads_of(harness, 17) == 1
    assert harness.connector._ours._link.measured_loads == 1


def test_loads_in_flight_are_ahead_of_a_new_one() -> None:
    """While a long load has not finished, a short run that would pay on an idle link is recomputed."""
    harness = SchedulerHarness(replace(OURS, device_blocks=24, max_requests=3))
    harness.manager.rules = replace(RANKED, costs=replace(COSTS, load_latency_s=0.0, load_bytes_per_s=1.5e6))
    long, short = prompt((50, 1, 1, 1), 33), prompt((60, 1, 1), 9)
    for tokens in (long, short, *(prompt((70 + number, 1), 36) for number in range(3))):
        harness.add(tokens, 1)
        harness.drain()
    harness.order = lambda _: []
    loads = harness.counts.loads
    harness.add(long, 1)
    harness.step()
    assert harness.counts.loads == loads + 1
    harness.add(short, 1)
    for _ in range(3):
        harness.step()
    assert refusals(harness) == {LoadRefusal.LINK_BUSY: 1}
    harness.drain()
    harness.check_at_rest()


def test_a_refused_load_is_computed_and_offered_as_if_the_host_had_nothing() -> None:
    """The request finishes with the tokens of an engine that never loads."""
    harness, plain = obeying(RANKED), obeying(HostRules.lru())
    loads_of(harness, 5)
    loads_of(plain, 5)
    assert harness.outputs == plain.outputs
    harness.check_at_rest()


def test_the_manager_hears_what_only_the_connector_sees() -> None:
    """Prompt and output tokens, finish reason, priority and session arrive, the end before the manager's own end."""
    harness = SchedulerHarness(OURS)
    heard: list[tuple[str, Any]] = []
    manager = harness.manager
    finish = manager.on_request_finished
    manager.note_ended = lambda request_id, request: heard.append(("finished", request))

    def end(context: Any) -> None:
        heard.append(("end", context.req_id))
        finish(context)

    manager.on_request_finished = end
    harness.add(prompt((1, 1), 20), 3, session_id="s1", priority=2)
    harness.drain()
    assert [kind for kind, _ in heard] == ["finished", "end"]
    request = heard[0][1]
    assert (request.prompt_tokens, request.output_tokens, request.finish_reason) == (20, 3, "length")
    assert (request.priority, request.session_id, request.preemptions) == (2, "s1", 0)
    assert (len(request.keys), request.device_chunks, request.host_chunks) == (5, 0, 0)


def test_the_manager_hears_what_a_request_found() -> None:
    """Chunks that the device had and chunks that were loaded are told apart, and counted once."""
    harness = SchedulerHarness(OURS)
    heard: list[Any] = []
    harness.manager.note_ended = lambda request_id, request: heard.append(request)
    loads_of(harness, 17)
    last = heard[-1]
    assert last.host_chunks > 0
    assert last.device_chunks + last.host_chunks <= len(last.keys)


def test_a_session_may_come_with_the_transfer_parameters_and_an_abort_has_its_reason() -> None:
    """Clients of engines without sessions name theirs in ``kv_transfer_params``."""
    harness = SchedulerHarness(OURS)
    heard: list[Any] = []
    harness.manager.note_ended = lambda request_id, request: heard.append(request)
    request_id = harness.add(prompt((1, 1), 20), 3, kv_transfer_params={"session_id": 17})
    harness.abort(request_id)
    assert (heard[0].session_id, heard[0].finish_reason) == ("17", "abort")


def test_the_manager_hears_of_finished_copies() -> None:
    """Loads and stores are told apart, with bytes and seconds."""
    harness = SchedulerHarness(OURS)
    heard: list[Any] = []
    harness.manager.note_transfer = heard.append
    loads_of(harness, 17)
    assert sum(report.n_copies for report in heard if report.is_load) == 1
    assert {report.is_load for report in heard} == {True, False}
    assert all(report.n_bytes > 0 and report.seconds > 0 for report in heard)


@pytest.mark.parametrize(
    "method",
    [
        "follow_policy",
        "on_new_request",
        "request_finished",
        "load_pays",
        "add_stores",
        "note_transfers",
        "before_reset",
    ],
)
def test_whatever_raises_the_engine_goes_on_as_stock(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in any of our decisions is counted once; from then on the connector is vLLM's own, and nothing leaks."""
    from autotune_policies.engines.vllm.decisions import SchedulerPart

    def fail(*_: object) -> None:
        raise ValueError("made to fail")

    harness = SchedulerHarness(replace(OURS, max_requests=4, host_chunks=12))
    fail.__name__ = method
    monkeypatch.setattr(SchedulerPart, method, fail)
    drive(harness, seed=1, n_steps=200, resets_frac=0.03)
    assert harness.connector._is_stock
    assert harness.connector._ours.counters.fallbacks == 1


def test_a_part_that_cannot_start_leaves_a_stock_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    """If our part fails at the start, requests are served by vLLM's connector."""
    from autotune_policies.engines.vllm.decisions import SchedulerPart

    def fail(*_: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(SchedulerPart, "__init__", fail)
    harness = SchedulerHarness(replace(OURS, max_requests=4, host_chunks=12))
    drive(harness, seed=1, n_steps=100)
    assert harness.connector._is_stock
    assert harness.counts.loads > 0
