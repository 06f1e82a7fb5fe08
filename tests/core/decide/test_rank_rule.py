"""The rank rule, and its compiled twin."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide import arithmetic, keys, rank, value

TIMES = st.integers(0, 10**15)
WEIGHTS = st.floats(0.0, 1e15)
FREQUENCIES = st.floats(1.0, 1e9)
# Real cost profiles: nanoseconds to seconds.
SECONDS = st.floats(0.0, 100.0)


class Compiled:
    """The compiled twins of the same functions, each with an entry from Python, which they lack in the simulator."""

    def __getattr__(self, name: str) -> Any:
        kernels, jit = (import_module(f"autotune_policies.kernels.{module}") for module in ("decide", "jit"))
        function = jit.from_python(getattr(kernels, name))
        setattr(self, name, function)
        return function


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """The compiled twins."""
    return Compiled()


def test_lambda_one_has_no_weight_and_ranks_by_recency() -> None:
    """W = 0, so the rank is the time of the last access whatever the block is worth."""
    weight_ns = rank.rank_weight_s(1.0, 600.0) * rank.NS_PER_S
    assert weight_ns == 0.0
    assert rank.rank_ns(123, weight_ns, 1e6, rank.value_term_ns(weight_ns, 5.0, 10.0)) == 123


def test_weight_is_tau_times_the_odds() -> None:
    """W = tau (1 - lambda) / lambda."""
    assert rank.rank_weight_s(0.25, 100.0) == pytest.approx(300.0)


def test_a_doubled_frequency_is_worth_one_weight_of_recency() -> None:
    """log2 of twice the frequency is one more, so the rank rises by w."""
    weight_ns = 60.0 * rank.NS_PER_S
    assert rank.rank_ns(0, weight_ns, 8.0, 0) - rank.rank_ns(0, weight_ns, 4.0, 0) == 60 * rank.NS_PER_S


@pytest.mark.parametrize(("elapsed_s", "expected"), [(0.0, 8.0), (300.0, 4.0), (600.0, 2.0)])
def test_frequency_halves_every_half_life(elapsed_s: float, expected: float) -> None:
    """After one half-life an access counts half, after two a quarter."""
    assert rank.decayed_frequency(8.0, elapsed_s, 300.0) == expected


def test_without_half_life_nothing_fades() -> None:
    """A half-life of 0 switches the decay off."""
    assert rank.decayed_frequency(8.0, 1e9, 0.0) == 8.0


@given(st.floats(-1e18, 1e18))
def test_rounding_is_to_the_nearest_whole(x: float) -> None:
    """At most half a unit away, and always an integer."""
    rounded = rank.round_half_up(x)
    assert isinstance(rounded, int)
    assert abs(rounded - x) <= max(0.5, abs(x) * 2e-16)


@pytest.mark.parametrize(
    ("x", "expected"), [(0.5, 1), (-0.5, 0), (1.49, 1), (-1.5, -1), (-1.51, -2), (1e300, rank.RANK_LIMIT_NS)]
)
def test_rounding_of_halves_and_of_what_is_too_large(x: float, expected: int) -> None:
    """Halves go up; what would overflow is held at the limit."""
    assert rank.round_half_up(x) == expected


@given(WEIGHTS, FREQUENCIES)
def test_the_compiled_rank_is_equal_to_the_last_bit(compiled: Compiled, weight_ns: float, frequency: float) -> None:
    """Same inputs, same nanosecond, compiled or not; the rest of a rank is sums of integers."""
    assert compiled.frequency_term_ns(weight_ns, frequency) == rank.frequency_term_ns(weight_ns, frequency)


@given(FREQUENCIES, st.floats(0.0, 1e7), st.floats(0.0, 1e5))
def test_the_compiled_decay_is_equal_to_the_last_bit(
    compiled: Compiled, frequency: float, elapsed_s: float, half_life_s: float
) -> None:
    """Same inputs, same float, compiled or not."""
    args = (frequency, elapsed_s, half_life_s)
    assert compiled.decayed_frequency(*args) == rank.decayed_frequency(*args)


@given(st.floats(1e-300, 1e300), st.floats(-1100.0, 1000.0))
def test_the_compiled_logarithm_and_power_are_equal_to_the_last_bit(compiled: Compiled, x: float, y: float) -> None:
    """Same inputs, same float, compiled or not."""
    assert compiled.log2(x) == arithmetic.log2_exactly_rounded_ops(x)
    assert compiled.exp2(y) == arithmetic.exp2_exactly_rounded_ops(y)


@given(
    st.integers(0, 10**15), st.floats(1.0, 1e6), st.integers(0, 10**11), st.integers(0, 10**6), st.integers(1, 10**6)
)
def test_the_other_compiled_keys_are_equal(
    compiled: Compiled, inflation: int, frequency: float, value_ns: int, request: int, gap: int
) -> None:
    """GDSF and the clairvoyant keys agree too."""
    assert compiled.gdsf_key(inflation, frequency, value_ns) == keys.gdsf_key(inflation, frequency, value_ns)
    for use in (request + gap, keys.NEVER):
        assert compiled.next_use_key(use) == keys.next_use_key(use)
        assert compiled.seconds_density_key(value_ns, request, use) == keys.seconds_density_key(value_ns, request, use)


@given(
    st.integers(0, 200_000), st.integers(1, 200_000), st.floats(0.0, 1e11), st.floats(1e6, 1e12), st.floats(0.0, 1.0)
)
def test_the_compiled_break_even_is_equal(
    compiled: Compiled, start: int, n: int, load_bytes: float, bytes_per_s: float, latency_s: float
) -> None:
    """Loading pays in both or in neither."""
    args = (float(start), float(start + n), 4e-5, 1.3e-9, load_bytes, bytes_per_s, latency_s)
    assert compiled.load_pays(*args) == value.load_pays(*args)
