"""A link from finished copies: bandwidth, latency and what others beside it cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.core.shapes import LinkSpec
from autotune.costs.transfer import TransferModel, TransferSamples, fit_transfer, mean_concurrency

BYTES_PER_S, LATENCY_S, CONTENTION = 12e9, 30e-6, 0.8
TABLE = LinkSpec(20e9, 20e-6)


def observed(seed: int, n: int, *, outliers: float = 0.0, noise: float = 0.1) -> TransferSamples:
    """Copies of 64 KiB to 128 MiB, one to three at a time; outliers take up to ten times as long."""
    draw = np.random.default_rng(seed)
    sizes = 2.0 ** draw.uniform(16, 27, n)
    concurrent = 1.0 + draw.integers(0, 3, n)
    seconds = LATENCY_S + sizes / BYTES_PER_S * (1.0 + CONTENTION * (concurrent - 1.0))
    seconds *= np.exp(noise * draw.standard_normal(n))
    slow = draw.random(n) < outliers
    return TransferSamples.of(sizes, np.where(slow, seconds * draw.uniform(2.0, 10.0, n), seconds), concurrent)


@pytest.mark.parametrize("outliers", [0.0, 0.2])
def test_the_link_is_found_again(outliers: float) -> None:
    """Bandwidth, latency and contention come out of 500 copies, and the table's figures no longer count."""
    fit = fit_transfer(observed(1, 500, outliers=outliers), TABLE, "a table")
    assert fit.bytes_per_s == pytest.approx(BYTES_PER_S, rel=0.05)
    assert fit.latency_s == pytest.approx(LATENCY_S, rel=0.1)
    assert fit.contention == pytest.approx(CONTENTION, abs=0.1)
    assert "500 copies measured" in fit.source
    assert "0% (a table)" in fit.source


@pytest.mark.parametrize("n", [5, 30, 200])
def test_intervals_cover_the_link(n: int) -> None:
    """Of 60 simulations, at least 86 % have the truth in each 95 % interval."""
    inside = np.zeros(4)
    for seed in range(60):
        fit = fit_transfer(observed(seed, n, outliers=0.1), TABLE, "a table")
        known = [(e.low, e.high) for e in fit.estimates("load", 0.0)] + [fit.seconds(1e7, 2.0)[1:]]
        true_s = LATENCY_S + 1e7 / BYTES_PER_S * (1.0 + CONTENTION)
        for place, true in enumerate((BYTES_PER_S, LATENCY_S, CONTENTION, true_s)):
            inside[place] += known[place][0] <= true <= known[place][1]
    assert (inside / 60).min() >= 0.86


def test_without_copies_the_table_stands() -> None:
    """Nothing seen: the table's link, shared fairly, with a wide interval and no samples."""
    fit = fit_transfer(TransferSamples.of([], []), TABLE, "a table")
    assert (fit.bytes_per_s, fit.latency_s, fit.contention) == pytest.approx((20e9, 20e-6, 1.0))
    bandwidth = fit.estimates("store", None)[0]
    assert (bandwidth.name, bandwidth.samples, bandwidth.source) == ("store_bytes_per_s", 0, "a table")
    assert bandwidth.low < 10e9
    assert bandwidth.high > 40e9


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(1.0, 1e12), st.floats(1e-9, 1e4), st.floats(1.0, 64.0)), max_size=12))
def test_nothing_makes_a_link_negative(rows: list[tuple[float, float, float]]) -> None:
    """Whatever was observed, the link is finite and none of its figures is negative."""
    columns = np.array(rows, np.float64).reshape(-1, 3).T
    fit = fit_transfer(TransferSamples.of(*columns), TABLE, "a table")
    for estimate in fit.estimates("load", 0.0):
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high < np.inf
    assert fit.bytes_per_s > 0.0


def test_concurrency_by_hand() -> None:
    """Two copies that overlap by half, and one alone."""
    assert mean_concurrency([2.0, 3.0, 10.0], [2.0, 2.0, 1.0]) == pytest.approx([1.5, 1.5, 1.0])
    assert mean_concurrency([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]) == pytest.approx([3.0, 3.0, 3.0])
    assert len(mean_concurrency([], [])) == 0


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.01, 50.0)), min_size=1, max_size=12))
def test_concurrency_is_the_time_shared(copies: list[tuple[float, float]]) -> None:
    """The mean over a copy's time equals one plus its overlaps with all others over its length."""
    ends, taken = np.array(copies).T
    found = mean_concurrency(ends, taken)
    for i, (end, length) in enumerate(copies):
        overlaps = [
            max(0.0, min(end, other) - max(end - length, other - other_length))
            for j, (other, other_length) in enumerate(copies)
            if j != i
        ]
        assert found[i] == pytest.approx(1.0 + sum(overlaps) / length, rel=1e-6, abs=1e-6)


def test_a_shared_link_shows_in_the_times_alone() -> None:
    """Fed with finish times and seconds only, copies in pairs are recognised as sharing the link."""
    model = TransferModel(TABLE, "a table", window_s=1e6)
    draw = np.random.default_rng(2)
    for turn in range(200):
        size, pair = 2.0 ** draw.uniform(22, 27), turn % 2
        seconds = LATENCY_S + size / BYTES_PER_S * (1.0 + pair)
        for _ in range(1 + pair):
            model.observe(float(turn), size, seconds * float(np.exp(0.02 * draw.standard_normal())))
    fit = model.fit(200.0)
    assert fit.bytes_per_s == pytest.approx(BYTES_PER_S, rel=0.03)
    assert fit.contention == pytest.approx(1.0, abs=0.05)
    assert model.window.age_s(205.0) == pytest.approx(6.0)


def test_columns_that_mean_nothing_are_refused() -> None:
    """Columns of two lengths, and copies of nothing, are named."""
    with pytest.raises(ConfigError, match="have one length"):
        TransferSamples.of([1.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="positive numbers"):
        TransferSamples.of([0.0], [1.0])
