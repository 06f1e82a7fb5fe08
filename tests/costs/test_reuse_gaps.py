"""How soon blocks come back: the hazard by age from a stream of accesses, idle blocks counted as not reused yet."""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.costs.reuse_gaps import ReuseGaps

MEAN_S, SHARE = 200.0, 0.5


def stream(gaps: ReuseGaps, seed: int, n: int, per_request: int = 1, keys: int = 1_500) -> float:
    """Requests of some blocks each; half of them come back after an exponential time, all others never do.

    Returns:
        The time of the last request.
    """
    draw, fresh = np.random.default_rng(seed), count()
    waiting = [(float(draw.exponential(300.0)), next(fresh)) for _ in range(keys)]
    heapq.heapify(waiting)
    for _ in range(n):
        at_s, key = heapq.heappop(waiting)
        # A block's number is that of an engine's hash: 64 bits that look random.
        gaps.observe(at_s, [hash((key, place)) & (2**64 - 1) for place in range(per_request)])
        again = draw.random() < SHARE
        heapq.heappush(
            waiting, (at_s + float(draw.exponential(MEAN_S if again else 300.0)), key if again else next(fresh))
        )
    return at_s


def test_the_hazard_by_hand() -> None:
    """Ages of 0 to 1 and 1 to 10 s: 1 reuse over 3.5 s of exposure, and 1 over 4 s."""
    gaps = ReuseGaps(edges_s=(1.0, 10.0), half_life_s=1e9)
    gaps.observe(0.0, [1, 2, 3])
    gaps.observe(0.5, [1])  # reused at 0.5 s
    gaps.observe(3.0, [2])  # reused at 3 s
    curve = gaps.curve(3.0)  # idle: 1 for 2.5 s, 3 for 3 s, 2 for nothing yet
    assert curve.starts_s.tolist() == [0.0, 1.0]
    assert curve.hazard_per_s == pytest.approx([1 / (0.5 + 1 + 1 + 1), 1 / (2 + 1.5 + 2)])
    assert curve.events == pytest.approx([1.0, 1.0])
    assert (curve.samples, curve.followed_frac, curve.age_s) == (2, 1.0, 0.0)


def test_idle_blocks_are_no_proof_that_nothing_returns() -> None:
    """The probability of reuse is found although half of the blocks are still idle, and its interval holds it."""
    gaps = ReuseGaps()
    now_s = stream(gaps, 1, 20_000)
    for horizon_s in (60.0, 600.0):
        estimate = gaps.curve(now_s).within(horizon_s)
        true = SHARE * -np.expm1(-horizon_s / MEAN_S)
        assert estimate.value == pytest.approx(true, rel=0.05)
        assert estimate.low - 0.01 <= true <= estimate.high + 0.01
        assert estimate.samples > 5_000


def test_the_bound_holds_and_keeps_the_answer() -> None:
    """With room for 500 blocks a share of them is followed, and the answer stays."""
    gaps = ReuseGaps(max_followed=500)
    now_s = stream(gaps, 2, 20_000)
    assert len(gaps) <= 500
    assert gaps.followed_frac <= 1 / 8
    estimate = gaps.curve(now_s).within(600.0)
    true = SHARE * -np.expm1(-600.0 / MEAN_S)
    assert estimate.value == pytest.approx(true, rel=0.12)
    assert estimate.low <= true * 1.05
    assert estimate.high >= true * 0.95


def test_blocks_of_one_request_count_as_one_event() -> None:
    """Sixteen blocks that always come back together leave the interval as wide as one of them does."""
    spans = []
    for per_request in (1, 16):
        gaps = ReuseGaps()
        now_s = stream(gaps, 3, 2_000, per_request)
        estimate = gaps.curve(now_s).within(600.0)
        spans.append(estimate.high - estimate.low)
    assert spans[1] == pytest.approx(spans[0], rel=0.25)


def test_old_habits_fade() -> None:
    """After many half-lives of another habit the estimate is that of the new one."""
    gaps = ReuseGaps(half_life_s=50.0)
    for turn in range(400):
        gaps.observe(turn * 1.0, [turn, turn - 1])  # each block comes back after 1 s
    early = gaps.curve(400.0).within(2.0).value
    for turn in range(400, 1_200):
        gaps.observe(turn * 1.0, [turn])  # none comes back
    assert early > 0.5
    assert gaps.curve(1_200.0).within(2.0).value < 0.01


def test_an_epoch_is_not_joined_to_the_one_before() -> None:
    """A block that comes back after a restart is no reuse, and what was learned before stays."""
    gaps = ReuseGaps()
    gaps.observe(0.0, [1])
    gaps.observe(1.0, [1])
    gaps.restart()
    gaps.observe(2.0, [1])
    assert gaps.samples == 1
    assert gaps.curve(2.0).events.sum() == pytest.approx(1.0)


def test_nothing_seen_says_nothing() -> None:
    """Without any access the probability lies between 0 and 1 and has no age."""
    estimate = ReuseGaps().curve(10.0).within(60.0)
    assert (estimate.value, estimate.low, estimate.high, estimate.age_s) == (0.0, 0.0, 1.0, None)


@given(
    st.lists(st.tuples(st.floats(0.0, 1e6), st.lists(st.integers(-(2**63), 2**64 - 1), max_size=4)), max_size=40),
    st.floats(0.0, 2e6),
    st.integers(1, 5),
)
def test_nothing_makes_a_probability_of_what_is_none(
    uses: list[tuple[float, list[int]]], now_s: float, room: int
) -> None:
    """Whatever comes in whatever order of time, no more than the bound is followed and probabilities are some."""
    gaps = ReuseGaps(max_followed=room, half_life_s=3_600.0)
    for at_s, blocks in uses:
        gaps.observe(at_s, blocks)
        assert len(gaps) <= room
    curve = gaps.curve(now_s)
    assert np.isfinite(curve.high_per_s).all()
    assert (curve.low_per_s <= curve.hazard_per_s * (1 + 1e-9)).all()
    assert (curve.hazard_per_s <= curve.high_per_s * (1 + 1e-9)).all()
    for horizon_s in (1.0, 3_600.0, 1e7):
        estimate = curve.within(horizon_s)
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0


def test_what_means_nothing_is_refused() -> None:
    """Ages that do not ascend, and room for no block, are named."""
    with pytest.raises(ConfigError, match="ages ascend"):
        ReuseGaps(edges_s=(2.0, 1.0))
    with pytest.raises(ConfigError, match="ages ascend"):
        ReuseGaps(max_followed=0)
