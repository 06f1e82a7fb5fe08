"""Computing and transferring at once, against figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.costs.overlap import Level, beta_needed, mean_access_s, resident_frac_that_hides, speedup, step_s

TIMES = st.floats(0.001, 1000.0)


@pytest.mark.parametrize(
    ("transfer", "beta", "expected"),
    [(10, 0.5, 1.3333), (10, 0.8, 1.6667), (10, 1, 2.0), (5, 0.5, 1.2), (5, 0.8, 1.3636), (5, 1, 1.5)],
)
def test_speedup(transfer: float, beta: float, expected: float) -> None:
    """Equal parts gain up to twofold, half as long transfers up to one and a half."""
    assert speedup(10.0, transfer, beta) == pytest.approx(expected, abs=5e-5)
    assert speedup(10.0, transfer, beta) == pytest.approx((10 + transfer) / (10 + (1 - beta) * transfer))


@given(TIMES, TIMES, st.floats(0.0, 1.0))
def test_a_step_lies_between_the_longer_part_and_the_sum(compute: float, transfer: float, beta: float) -> None:
    """No overlap makes a step shorter than its longer part or longer than both."""
    tolerance = 1e-9 * (compute + transfer)
    assert max(compute, transfer) - tolerance <= step_s(compute, transfer, beta) <= compute + transfer + tolerance


@given(TIMES, TIMES, TIMES)
def test_the_overlap_needed_reaches_the_goal(compute: float, transfer: float, goal: float) -> None:
    """The smallest β gives a step no longer than the goal; without one, not even full overlap does."""
    beta = beta_needed(compute, transfer, goal)
    if beta is None:
        assert max(compute, transfer) > goal
    else:
        assert step_s(compute, transfer, beta) <= goal * (1 + 1e-9)


def test_resident_share_that_hides_the_link() -> None:
    """40 ms of computing hide 1 GiB at 25 GiB/s; of 4 GiB three quarters must stay, of less nothing."""
    gib = 2**30
    assert resident_frac_that_hides(0.040, 25 * gib, 4 * gib) == pytest.approx(0.75)
    assert resident_frac_that_hides(0.040, 25 * gib, gib) == pytest.approx(0.0, abs=1e-12)
    assert resident_frac_that_hides(0.040, 25 * gib, 0) == 0.0


def test_mean_access_time() -> None:
    """Three levels and misses: 30.5 ms."""
    levels = [Level(0.5, 0.0), Level(0.3, 0.020), Level(0.1, 0.080)]
    assert mean_access_s(levels, 0.165) == pytest.approx(0.0305)


def test_what_has_no_meaning_is_refused() -> None:
    """Shares above everything, overlap above 1 and links without bandwidth are named."""
    with pytest.raises(ConfigError, match="at most 1 together"):
        mean_access_s([Level(0.8, 0.0), Level(0.3, 0.0)], 1.0)
    with pytest.raises(ConfigError, match="β is between 0 and 1"):
        step_s(1.0, 1.0, 1.5)
    with pytest.raises(ConfigError, match="more than 0 bytes per second"):
        resident_frac_that_hides(1.0, 0.0, 1)
