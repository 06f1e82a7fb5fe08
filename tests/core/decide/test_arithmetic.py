"""Logarithm and exponential from basic operations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops, log2_exactly_rounded_ops


@given(st.floats(1e-300, 1e300))
def test_log2_is_close_to_the_library(x: float) -> None:
    """Within 1e-13 of the C library's logarithm, relative to max(1, |result|)."""
    expected = math.log2(x)
    assert abs(log2_exactly_rounded_ops(x) - expected) <= 1e-13 * max(1.0, abs(expected))


@given(st.floats(-1000.0, 1000.0))
def test_exp2_is_close_to_the_library(x: float) -> None:
    """Within 1e-12 relative of the C library's power."""
    assert exp2_exactly_rounded_ops(x) == pytest.approx(2.0**x, rel=1e-12)


@pytest.mark.parametrize("power", [-1000, -3, 0, 1, 10, 52, 1000])
def test_powers_of_two_are_exact(power: int) -> None:
    """Whole powers come out to the last bit, both ways."""
    assert log2_exactly_rounded_ops(math.ldexp(1.0, power)) == power
    assert exp2_exactly_rounded_ops(float(power)) == math.ldexp(1.0, power)


def test_exp2_of_very_negative_numbers_is_zero() -> None:
    """A weight that has faded away is 0, not an error."""
    assert exp2_exactly_rounded_ops(-1e9) == 0.0


@given(st.floats(1.0, 1e12), st.floats(1.0, 1e12))
def test_log2_keeps_the_order(a: float, b: float) -> None:
    """A clearly larger number has the larger logarithm."""
    low, high = sorted((a, b))
    if high > low * (1 + 1e-12):
        assert log2_exactly_rounded_ops(low) < log2_exactly_rounded_ops(high)
