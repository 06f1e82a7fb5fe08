"""Time to first token: queues worked out by hand, theory, and the spreading of coarse arrival times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import SimulationError
from autotune.core.trace import Trace
from autotune.sim.queueing import (
    QueueConfig,
    QueueResult,
    offered_load,
    require_stable,
    spread_arrivals,
    time_to_first_token,
)
from autotune.testing.streams import Ask, make_trace

NO_LOAD = (0.0, 0.0, 0.0)


def serve(
    arrival_s: Sequence[float],
    compute_s: Sequence[float],
    load_s: Sequence[float],
    measured_from: int = 0,
    **config: float,
) -> QueueResult:
    """The queue's answer for these columns."""
    arrivals, compute, load = (np.array(values, np.float64) for values in (arrival_s, compute_s, load_s))
    return time_to_first_token(arrivals, compute, load, QueueConfig(**config), measured_from)  # type: ignore[arg-type]


def test_one_server_takes_requests_in_order() -> None:
    """Three requests of 3 s that come every second end at 3, 6 and 9."""
    result = serve([0.0, 1.0, 2.0], [3.0, 3.0, 3.0], NO_LOAD)
    assert result.ttft_s.tolist() == [3.0, 5.0, 7.0]
    assert result.load_frac == pytest.approx(9.0 / 2.0)


def test_two_servers_share_one_queue() -> None:
    """Each request goes to whichever server is free first: ends at 3, 2, 4 and 5."""
    result = serve([0.0, 1.0, 2.0, 2.5], [3.0, 1.0, 2.0, 2.0], [0.0] * 4, servers=2)
    assert result.ttft_s.tolist() == [3.0, 1.0, 2.0, 2.5]


@pytest.mark.parametrize(("overlap", "ttft_s"), [(0.0, 5.0), (0.5, 4.0), (1.0, 3.0)])
def test_load_and_compute_overlap(overlap: float, ttft_s: float) -> None:
    """2 s of load and 3 s of compute take 5 s one after the other and 3 s side by side."""
    assert serve([0.0], [3.0], [2.0], overlap_frac=overlap).ttft_s.tolist() == [ttft_s]
    assert serve([0.0], [2.0], [3.0], overlap_frac=overlap).ttft_s.tolist() == [ttft_s]


@pytest.mark.parametrize(
    ("depth", "ttft_s"),
    [
        # No prefetching: loads start with their requests. Ends at 4, 4 + 2 + 1 = 7, 10, 13.
        (0, [4.0, 7.0, 10.0, 13.0]),
        # The head of the queue loads while another one computes. The second loads from 0 to 2 and ends at 5, the third
        # loads from 4 to 6 and ends at 7, the fourth from 6 to 8 (it is head from 6 on, when the third is taken up).
        (1, [4.0, 5.0, 7.0, 9.0]),
        # Two load ahead: the third from 2 to 4, the fourth from 4 to 6. Ends at 4, 5, 6, 7.
        (2, [4.0, 5.0, 6.0, 7.0]),
    ],
)
def test_prefetching_loads_for_those_who_wait(depth: int, ttft_s: list[float]) -> None:
    """Four requests at once; the first computes 4 s, the others load 2 s and compute 1 s, without overlap."""
    result = serve([0.0] * 4, [4.0, 1.0, 1.0, 1.0], [0.0, 2.0, 2.0, 2.0], prefetch_depth=depth, overlap_frac=0.0)
    assert result.ttft_s.tolist() == ttft_s


def test_the_link_carries_one_load_at_a_time() -> None:
    """Two servers start at once, but the second load waits for the first: ends at 2 + 1 and 4 + 1."""
    result = serve([0.0, 0.0], [1.0, 1.0], [2.0, 2.0], servers=2, prefetch_depth=0, overlap_frac=0.0)
    assert result.ttft_s.tolist() == [3.0, 5.0]


def test_deterministic_service_waits_as_theory_says() -> None:
    """Poisson arrivals, one server, 0.7 s each at load 0.7: the mean wait is that of M/D/1, rho s / (2 (1 - rho)).

    Source: Pollaczek-Khinchine formula.
    """
    n, service_s = 200_000, 0.7
    arrival_s = np.cumsum(np.random.default_rng(5).exponential(1.0, n))
    result = time_to_first_token(arrival_s, np.full(n, service_s), np.zeros(n), QueueConfig())
    expected_s = service_s * service_s / (2.0 * (1.0 - service_s))
    assert float(result.ttft_s.mean()) - service_s == pytest.approx(expected_s, rel=0.03)
    assert result.load_frac == pytest.approx(0.7, rel=0.01)


def test_goodput_counts_who_is_in_time() -> None:
    """Of the two that are measured one stays within the target; the first only fills the queue."""
    result = serve([0.0, 1.0, 4.0], [3.0, 3.0, 0.5], NO_LOAD, measured_from=1, ttft_target_s=3.0)
    assert result.ttft_s.tolist() == [5.0, 2.5]
    assert result.goodput_frac == 0.5
    assert result.goodput_per_s == pytest.approx(1.0 / 3.0)
    assert result.quantile_s(0.5) == 3.75


@given(
    compute_s=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=30),
    servers=st.integers(1, 4),
    depth=st.integers(0, 3),
    overlap=st.floats(0.0, 1.0),
    seed=st.integers(0, 99),
)
def test_nobody_is_served_faster_than_alone(
    compute_s: list[float], servers: int, depth: int, overlap: float, seed: int
) -> None:
    """A request takes at least its compute, and with more servers nobody's first token comes later."""
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1.0, len(compute_s))).tolist()
    load_s = rng.choice([0.0, 0.5, 2.0], len(compute_s)).tolist()
    few, more = (
        serve(arrival_s, compute_s, load_s, servers=n, prefetch_depth=depth, overlap_frac=overlap).ttft_s
        for n in (servers, servers + 1)
    )
    assert np.all(few >= np.array(compute_s) - 1e-9)
    if depth == 0:
        assert np.all(more <= few + 1e-9)


@pytest.mark.parametrize(
    "values",
    [
        {"servers": 0},
        {"time_scale": 0.0},
        {"time_scale": float("nan")},
        {"time_scale": float("inf")},
        {"prefetch_depth": -1},
        {"overlap_frac": 1.5},
        {"overlap_frac": float("nan")},
        {"ttft_target_s": 0.0},
    ],
)
def test_queue_without_meaning_is_refused(values: dict[str, float]) -> None:
    """Values out of range are errors."""
    with pytest.raises(SimulationError):
        QueueConfig(**values)  # type: ignore[arg-type]


def test_load_is_work_per_second_of_the_span() -> None:
    """30 s of work in 10 s are a load of 3 on one server and of 1 on three; at one moment it is infinite."""
    arrival_s, work_s = np.array([0.0, 5.0, 10.0]), np.array([10.0, 10.0, 10.0])
    assert offered_load(arrival_s, work_s, 1) == pytest.approx(3.0)
    assert offered_load(arrival_s, work_s, 3) == pytest.approx(1.0)
    assert offered_load(np.zeros(3), work_s, 1) == float("inf")


def test_an_unstable_load_is_refused_with_figures() -> None:
    """The error names the measured load and what would bring it down, servers only where servers are what lacks."""
    require_stable(0.9, 0.9, 0.9)
    with pytest.raises(SimulationError, match=r"at most 0\.9 under LRU; got 1\.80; use 2\.00 times as many --servers"):
        require_stable(1.8, 0.2, 0.9)
    with pytest.raises(SimulationError, match=r"got 1\.80 on the host link; use --time-scale 2\.00 times as large"):
        require_stable(0.2, 1.8, 0.9)
    with pytest.raises(SimulationError):
        require_stable(float("inf"), 0.0, 0.9)


def ticks(*arrival_s: float, tick_s: float) -> Trace:
    """A trace that came at these times by a clock of that resolution."""
    return make_trace([Ask(at_s, [1]) for at_s in arrival_s], tick_s=tick_s)


def test_arrivals_spread_inside_their_tick() -> None:
    """Times a little beside a 3 s tick belong to it; all stay inside it and in order."""
    trace = ticks(0.0, 0.0, 2.999, 3.0, 3.001, 6.001, tick_s=3.0)
    spread_s = spread_arrivals(trace, 1.0, seed=1)
    assert np.all(np.diff(spread_s) >= 0.0)
    assert np.floor(spread_s / 3.0).tolist() == [0, 0, 1, 1, 1, 2]
    assert len(set(spread_s.tolist())) == 6


@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    jitter=st.lists(st.sampled_from([-0.001, 0.0, 0.001]), min_size=40, max_size=40),
    seed=st.integers(0, 999),
    scale=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_spreading_keeps_order_and_tick(steps: list[int], jitter: list[float], seed: int, scale: float) -> None:
    """Whatever the ticks and their jitter, the order stays and every request stays within its tick."""
    tick = np.cumsum(steps)
    arrival_s = np.sort(np.maximum(0.0, tick * 3.0 + np.array(jitter[: len(steps)])))
    spread_s = spread_arrivals(ticks(*arrival_s, tick_s=3.0), scale, seed) / scale
    assert np.all(np.diff(spread_s) >= 0.0)
    assert np.all((spread_s >= tick * 3.0 - 1e-9) & (spread_s < (tick + 1) * 3.0 + 1e-9))


def test_spreading_follows_the_seed() -> None:
    """The same seed gives the same times; a fine clock is left as it is; a negative seed is an error."""
    trace = ticks(0.0, 0.0, 3.0, tick_s=3.0)
    assert np.array_equal(spread_arrivals(trace, 1.0, 7), spread_arrivals(trace, 1.0, 7))
    assert not np.array_equal(spread_arrivals(trace, 1.0, 7), spread_arrivals(trace, 1.0, 8))
    assert spread_arrivals(ticks(0.0, 0.0, 3.0, tick_s=0.0), 2.0, 7).tolist() == [0.0, 0.0, 6.0]
    with pytest.raises(SimulationError, match="seed"):
        spread_arrivals(trace, 1.0, -1)


def test_a_part_spreads_like_the_whole() -> None:
    """Cutting the future off does not move the arrivals before it, but for the tick that the cut goes through."""
    trace = ticks(0.0, 0.0, 0.0, 3.0, 3.0, 6.0, 6.0, tick_s=3.0)
    whole, part = (spread_arrivals(t, 1.0, seed=3) for t in (trace, trace.slice(0, 5)))
    assert np.array_equal(whole[:5], part)


def test_the_sample_keeps_its_ticks() -> None:
    """On the bundled conversation trace every request stays within its 3 s tick."""
    trace = Trace.open("sample:conversation")
    spread_s = spread_arrivals(trace, 1.0, seed=0)
    assert np.all(np.diff(spread_s) >= 0.0)
    assert np.all(spread_s - trace.arrival_s > -0.01)
    assert np.all(spread_s - trace.arrival_s < 3.01)
