"""The link as measured from finished loads, and the break-even that follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.break_even import break_even_tokens
from autotune.core.costs import CostProfile
from autotune_policies.engines.vllm.link import LinkEstimate, LinkSpeed, refusal
from autotune_policies.engines.vllm.series import LoadRefusal

COSTS = CostProfile(
    prefill_linear_s=1e-5,
    prefill_quadratic_s=1e-9,
    kv_bytes_per_token=1_000,
    load_bytes_per_s=1e9,
    load_latency_s=1e-4,
    store_bytes_per_s=1e9,
    store_latency_s=1e-4,
    disk_bytes_per_s=1e8,
    disk_latency_s=1e-3,
    store_exposed_frac=0.0,
    source="test",
)
ASSUMED = LinkSpeed(bytes_per_s=1e9, latency_s=1e-4)


def test_the_assumed_speed_holds_until_enough_loads_were_measured() -> None:
    """A few loads change nothing; eight do."""
    link = LinkEstimate()
    for size in range(1, 8):
        link.observe(1, size * 1e6, 1e-3 * size)
    assert link.speed(ASSUMED) == ASSUMED
    link.observe(1, 8e6, 8e-3)
    assert link.speed(ASSUMED) != ASSUMED


@given(
    gb_per_s=st.floats(0.1, 100.0),
    latency_us=st.floats(0.0, 1_000.0),
    sizes=st.lists(st.integers(10, 1_000), min_size=8, max_size=40).filter(lambda sizes: max(sizes) > 2 * min(sizes)),
)
def test_bandwidth_and_latency_are_told_apart_by_loads_of_several_sizes(
    gb_per_s: float, latency_us: float, sizes: list[int]
) -> None:
    """On a link that obeys the formula, the estimate predicts the seconds of any load of the sizes seen."""
    link = LinkEstimate()
    for size in sizes:
        link.observe(1, size * 1e5, latency_us * 1e-6 + size * 1e5 / (gb_per_s * 1e9))
    speed = link.speed(LinkSpeed(1e9, latency_us * 1e-6))
    for size in (min(sizes), max(sizes)):
        true_s = latency_us * 1e-6 + size * 1e5 / (gb_per_s * 1e9)
        assert speed.latency_s + size * 1e5 / speed.bytes_per_s == pytest.approx(true_s, rel=0.02)


def test_loads_of_one_size_keep_the_assumed_latency() -> None:
    """Where sizes do not differ, only the bandwidth can be learnt."""
    link = LinkEstimate()
    for _ in range(10):
        link.observe(1, 1e6, 1e-4 + 2e-3)
    speed = link.speed(ASSUMED)
    assert speed.latency_s == ASSUMED.latency_s
    assert speed.bytes_per_s == pytest.approx(5e8)


def test_a_link_that_became_slow_is_believed_after_some_loads() -> None:
    """Old loads fade."""
    link = LinkEstimate(memory_loads=16)
    for size in range(1, 100):
        link.observe(1, size * 1e5, size * 1e5 / 1e10)
    for size in range(1, 100):
        link.observe(1, size * 1e5, size * 1e5 / 1e9)
    assert link.speed(ASSUMED).bytes_per_s == pytest.approx(1e9, rel=0.05)


def test_ranks_that_copy_at_once_count_as_one_load() -> None:
    """Two ranks with half of the bytes each make the link of the engine twice as fast."""
    one, two = LinkEstimate(), LinkEstimate()
    for size in range(1, 12):
        one.observe(1, size * 1e6, size * 1e-3)
        two.observe(2, size * 1e6, size * 1e-3, n_ranks=2)
    assert two.speed(ASSUMED).bytes_per_s == pytest.approx(2 * one.speed(ASSUMED).bytes_per_s)


@pytest.mark.parametrize(("n_loads", "n_bytes", "seconds"), [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, 0.0)])
def test_reports_without_content_are_passed_over(n_loads: int, n_bytes: float, seconds: float) -> None:
    """Nothing is learnt from nothing."""
    link = LinkEstimate()
    for _ in range(20):
        link.observe(n_loads, n_bytes, seconds)
    assert link.measured_loads == 0


@given(start_tokens=st.integers(0, 5_000), n_tokens=st.integers(1, 5_000))
def test_on_an_idle_link_the_decision_is_the_break_even_length(start_tokens: int, n_tokens: int) -> None:
    """A run is loaded exactly if it is at least as long as the break-even that the planner shows."""
    costs = replace(COSTS, load_latency_s=3e-3)
    speed = LinkSpeed(costs.load_bytes_per_s, costs.load_latency_s)
    shortest = break_even_tokens(costs, start_tokens)
    loads = refusal(costs, speed, start_tokens, n_tokens, ahead_bytes=0.0) is None
    assert loads == (shortest is not None and n_tokens >= shortest)


def test_a_busy_link_turns_a_load_that_would_pay_into_recompute() -> None:
    """The reason tells whether the link was busy or the run never worth it."""
    assert refusal(COSTS, ASSUMED, 0, 1_000, ahead_bytes=0.0) is None
    assert refusal(COSTS, ASSUMED, 0, 1_000, ahead_bytes=1e9) is LoadRefusal.LINK_BUSY
    assert refusal(COSTS, ASSUMED, 0, 5, ahead_bytes=1e9) is LoadRefusal.BREAK_EVEN


@given(ahead=st.lists(st.floats(0.0, 1e9), min_size=2, max_size=2), n_tokens=st.integers(1, 10_000))
def test_more_bytes_ahead_never_make_a_load_pay(ahead: list[float], n_tokens: int) -> None:
    """Loading pays less the more is ahead."""
    few, many = sorted(ahead)
    if refusal(COSTS, ASSUMED, 0, n_tokens, many) is None:
        assert refusal(COSTS, ASSUMED, 0, n_tokens, few) is None
