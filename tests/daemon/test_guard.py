"""The guard's statistics: what trips it, what does not, and how often chance does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.sidecar_settings import GuardSettings
from autotune.core.signals import HistogramReading
from autotune.daemon.bounds import Bounds, poisson_bounds, quantile_bounds, rate_bounds, two_sided_z, value_at_rank
from autotune.daemon.guard import Concern, SecondsPerToken, gain_bounds, judged, regressions
from autotune.daemon.windows import Interval, Window

EDGES_S = (0.1, 0.2, 0.4, 0.8, math.inf)
COSTS = SecondsPerToken(1e-4)
GUARD = GuardSettings()


def histogram(*counts: float) -> HistogramReading:
    """Observations by bucket."""
    return HistogramReading(sum(counts), None, EDGES_S, counts)


def window(n: int, seed: int = 0, **changes: float) -> Window:
    """Intervals of about 100 requests with the usual noise; named figures are multiplied."""
    draw = np.random.default_rng(seed)

    def one() -> Interval:
        finished = float(draw.poisson(100))
        tokens = 1000.0 * finished
        computed = tokens * (0.6 + 0.05 * draw.standard_normal())
        return Interval(
            seconds=5.0,
            prompt_tokens=tokens,
            generation_tokens=50.0 * finished * changes.get("generation", 1.0),
            finished=finished,
            failed=float(draw.poisson(0.1 * changes.get("failed", 1.0))),
            preemptions=float(draw.poisson(2.0 * changes.get("preemptions", 1.0))),
            computed_tokens=computed * changes.get("computed", 1.0),
            load_s=0.1,
            store_s=0.1,
            waiting=changes.get("waiting", 0.0),
            ttft=histogram(*draw.multinomial(int(finished), _buckets(changes.get("slow", 0.02))).astype(float)),
        )

    return Window(tuple(one() for _ in range(n)))


def _buckets(slow: float) -> list[float]:
    return [0.5 * (1 - slow), 0.3 * (1 - slow), 0.2 * (1 - slow), slow, 0.0]


@pytest.mark.parametrize(
    ("changes", "concern"),
    [
        ({"slow": 0.3}, Concern.TTFT),
        ({"preemptions": 3.0}, Concern.PREEMPTIONS),
        ({"failed": 100.0}, Concern.ERRORS),
        ({"computed": 1.4}, Concern.NET_SECONDS),
        ({"generation": 0.5, "waiting": 10.0}, Concern.THROUGHPUT),
    ],
)
def test_harm_is_found(changes: dict[str, float], concern: Concern) -> None:
    """Each kind of harm trips its own check and no other."""
    trips = regressions(window(100), window(100, seed=1, **changes), COSTS, GUARD, 100)
    assert [trip.concern for trip in trips] == [concern]


def test_a_lower_load_is_no_lower_throughput() -> None:
    """Half the tokens per second without anybody waiting is what was asked for."""
    assert not regressions(window(100), window(100, seed=1, generation=0.5), COSTS, GUARD, 100)


def test_chance_hardly_ever_trips_it() -> None:
    """Of 200 trials under which nothing changed, looked at 20 times each, at most the promised 5 % trip."""
    tripped = 0
    for seed in range(200):
        before, trial = window(60, seed=2 * seed), window(60, seed=2 * seed + 1)
        looks = (Window(trial.intervals[: 3 * look]) for look in range(1, 21))
        tripped += any(regressions(before, part, COSTS, GUARD, 20) for part in looks)
    assert tripped <= 10


def test_thin_evidence_trips_nothing_and_keeps_nothing() -> None:
    """Two intervals say nothing, however bad they look."""
    bad = window(2, computed=3.0, slow=0.9, preemptions=0.0)
    assert not [trip for trip in regressions(window(2), bad, COSTS, GUARD, 1) if trip.concern is not Concern.TTFT]
    assert list(judged(gain_bounds(window(2), bad, COSTS, 0.95), None)) == [
        "too little was measured to say whether it saves anything"
    ]


def test_unknown_figures_are_not_zero() -> None:
    """A window that lacks a figure in one interval trips no check of it."""
    holes = Window((*window(50, seed=1, preemptions=9.0).intervals, Interval(5.0)))
    assert not [each for each in regressions(window(50), holes, None, GUARD, 1) if each.concern is not Concern.TTFT]


def test_a_gain_is_kept_and_chance_is_not() -> None:
    """A saving whose bounds exclude zero is kept; none, or one that may be chance, is not."""
    better = gain_bounds(window(100), window(100, seed=1, computed=0.8), COSTS, 0.95)
    assert better is not None and better.low > 0.1 and not list(judged(better, None))
    same = gain_bounds(window(100), window(100, seed=1), COSTS, 0.95)
    assert list(judged(same, None))
    assert not list(judged(Bounds(0.02, -0.01, 0.05), (0.01, 0.04)))
    assert list(judged(Bounds(0.02, -0.01, 0.05), (0.2, 0.4)))


def test_rate_bounds_cover_what_they_promise() -> None:
    """95 % bounds cover the true rate in about that share of 400 draws."""
    covered = 0
    for seed in range(400):
        draw = np.random.default_rng(seed)
        wholes = draw.uniform(50.0, 150.0, 60)
        parts = wholes * (0.3 + 0.1 * draw.standard_normal(60))
        bounds = rate_bounds(parts.tolist(), wholes.tolist(), 0.95)
        assert bounds is not None
        covered += bounds.low <= 0.3 <= bounds.high
    assert 0.90 <= covered / 400 <= 0.995


def test_poisson_bounds_are_those_of_the_tables() -> None:
    """Ten events: 4.80 to 18.4 (Garwood); none: 0 to 3.7."""
    ten, none = poisson_bounds(10.0, 1.96), poisson_bounds(0.0, 1.96)
    assert ten.low == pytest.approx(4.80, abs=0.02) and ten.high == pytest.approx(18.4, abs=0.05)
    assert none.low == 0.0 and none.high == pytest.approx(3.69, abs=0.1)


def test_quantile_bounds_cover_the_quantile() -> None:
    """The 95th percentile of 1,000 observations lies between those of ranks 937 and 964."""
    bounds = quantile_bounds(histogram(500.0, 300.0, 150.0, 50.0, 0.0), 0.95, 1.96)
    assert bounds is not None
    assert bounds.value == pytest.approx(0.4) and bounds.low == pytest.approx(0.4 - 0.2 * 13.5 / 150, abs=1e-3)
    assert quantile_bounds(histogram(5.0, 3.0, 2.0, 0.0, 0.0), 0.95, 1.96) is None


@given(st.lists(st.floats(0.0, 1e6), min_size=5, max_size=5), st.floats(0.0, 1.0))
def test_ranks_stay_within_the_buckets(counts: list[float], share: float) -> None:
    """Whatever the counts, a rank's value lies between zero and the last finite bound, and grows with the rank."""
    reading = histogram(*counts)
    low, high = value_at_rank(reading, share * sum(counts) * 0.5), value_at_rank(reading, share * sum(counts))
    assert 0.0 <= low <= high <= 0.8


def test_confidence_is_two_sided() -> None:
    """95 % are 1.96 standard deviations."""
    assert two_sided_z(0.95) == pytest.approx(1.96, abs=0.001)
