"""Estimates: a value in its interval, and the two quantiles that intervals are made with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.core.errors import ConfigError
from autotune.core.estimates import Estimate, poisson_interval, t_quantile


def test_a_value_lies_in_its_interval() -> None:
    """An interval beside the value, or a value that is no number, is refused."""
    with pytest.raises(ConfigError, match="the estimate x lies in its interval"):
        Estimate("x", 1.0, 2.0, 3.0, "s", 0, None, "a table")
    with pytest.raises(ConfigError, match="the estimate x lies in its interval"):
        Estimate("x", math.nan, 0.0, 3.0, "s", 0, None, "a table")


def test_spread() -> None:
    """The spread is half the interval as a share of the value; a value of 0 with room above it is unknown."""
    assert Estimate("x", 2.0, 1.0, 3.0, "s", 4, 1.0, "seen").spread_frac == pytest.approx(0.5)
    assert Estimate("x", 0.0, 0.0, 3.0, "s", 0, None, "a table").spread_frac == math.inf
    assert Estimate("x", 0.0, 0.0, 0.0, "s", 0, None, "a table").spread_frac == 0.0
    assert Estimate("x", 2.0, 1.0, 3.0, "s", 4, 1.0, "seen").is_measured
    assert not Estimate("x", 0.0, 0.0, 0.0, "s", 0, None, "a table").is_measured


@pytest.mark.parametrize(("degrees", "expected"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (1e6, 1.960)])
def test_quantiles_of_t(degrees: float, expected: float) -> None:
    """The quantile agrees with the published table within 2 %."""
    assert t_quantile(degrees) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("events", "low", "high"), [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390)])
def test_interval_of_a_rate(events: float, low: float, high: float) -> None:
    """The interval agrees with Garwood's published limits within 2 % of a count."""
    found_low, found_high = poisson_interval(events, 1.0)
    assert found_low == pytest.approx(low, abs=0.03)
    assert found_high == pytest.approx(high, rel=0.02)
    assert poisson_interval(events, 4.0)[1] == pytest.approx(found_high / 4.0)


def test_interval_of_a_rate_covers_it() -> None:
    """Of simulated counts, at least 94 in 100 have the true rate in their interval."""
    counts = np.random.default_rng(7).poisson(4.0, 1_000)
    covered = [low <= 4.0 <= high for low, high in (poisson_interval(float(n), 1.0) for n in counts)]
    assert np.mean(covered) > 0.94
    with pytest.raises(ConfigError, match="exposure above 0"):
        poisson_interval(1.0, 0.0)
