"""Keys that do not change while a block lies idle, and their compiled twins."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide import fixed
from autotune.core.decide.rank import NS_PER_S

UNIT = 2**40
SCALES = st.floats(1.0, 3e18)
SCORES = st.integers(-(2**55), 2**55)
FACTORS = st.floats(1e-12, 1e12)


class Compiled:
    """The compiled twins, each with an entry from Python, which they lack in the simulator."""

    def __getattr__(self, name: str) -> Any:
        kernels, jit = (import_module(f"autotune_policies.kernels.{module}") for module in ("decide", "jit"))
        function = jit.from_python(getattr(kernels, name))
        setattr(self, name, function)
        return function


COMPILED = Compiled()


def test_the_parts_are_what_the_rule_says() -> None:
    """Thrice the near horizon, times a third of the scores and of 0.7 * log2(uses), times the logarithm of seconds."""
    scale_ns = fixed.scale_ns(60.0)
    assert scale_ns == 180 * NS_PER_S
    odds = fixed.reuse_odds(2 * UNIT, -UNIT, 8.0)
    assert odds / UNIT == pytest.approx(1.0 + 0.7 * 3.0)
    assert fixed.odds_shift_ns(scale_ns, odds) / NS_PER_S == pytest.approx(180.0 * 3.1 / 3.0)
    assert fixed.value_shift_ns(scale_ns, NS_PER_S // 2) / NS_PER_S == pytest.approx(180.0 * math.log(0.5))
    assert fixed.factor_shift_ns(scale_ns, math.e) / NS_PER_S == pytest.approx(180.0)


def test_nothing_at_stake_and_no_factor_leave_first() -> None:
    """A factor of 0 goes before every other block; nothing at stake counts as one nanosecond."""
    assert fixed.factor_shift_ns(1.0, 0.0) < -fixed.SHIFT_LIMIT_NS
    assert fixed.value_shift_ns(1e9, 0) == fixed.value_shift_ns(1e9, 1) < fixed.value_shift_ns(1e9, 2)


def test_a_horizon_of_nothing_still_has_a_scale() -> None:
    """The scale is never 0, which would stand for the other form of the rule."""
    assert fixed.scale_ns(0.0) > 0.0


@given(scale_ns=SCALES, odds=SCORES, factor=FACTORS)
def test_a_key_never_overflows(scale_ns: float, odds: int, factor: float) -> None:
    """Four parts of the largest size and a moment add up within 64 bits."""
    shifts = (fixed.odds_shift_ns(scale_ns, odds), fixed.factor_shift_ns(scale_ns, factor))
    assert all(abs(shift) <= fixed.SHIFT_LIMIT_NS for shift in shifts)
    assert 2 * fixed.SHIFT_LIMIT_NS + fixed.LEAVES_FIRST_NS < 2**63


@given(scale_ns=SCALES, near=SCORES, far=SCORES, uses=st.integers(1, 10**9), factor=FACTORS)
def test_compiled_twins_are_equal(scale_ns: float, near: int, far: int, uses: int, factor: float) -> None:
    """Every part is the same to the last bit."""
    odds = fixed.reuse_odds(near, far, float(uses))
    assert COMPILED.reuse_odds(near, far, float(uses)) == odds
    assert COMPILED.odds_shift_ns(scale_ns, odds) == fixed.odds_shift_ns(scale_ns, odds)
    assert COMPILED.factor_shift_ns(scale_ns, factor) == fixed.factor_shift_ns(scale_ns, factor)
    assert COMPILED.factor_shift_ns(scale_ns, 0.0) == fixed.factor_shift_ns(scale_ns, 0.0)
