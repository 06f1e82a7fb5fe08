"""What a block is worth, and what follows from prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide.value import (
    EVICT,
    KEEP,
    OFFLOAD,
    decide,
    load_pays,
    prefill_s,
    transfer_s,
    value_on_device_s,
    value_on_host_s,
)

VALUES = st.floats(0.0, 10.0)
PRICES = st.floats(0.0, 1e-6)


def test_prefill_of_parts_adds_up_to_the_whole() -> None:
    """The seconds of tokens [a, b) given their prefix are a difference, so parts sum to the whole."""
    parts = sum(prefill_s(b, 4e-5, 1e-9) - prefill_s(a, 4e-5, 1e-9) for a, b in ((0, 512), (512, 1000), (1000, 9000)))
    assert parts == pytest.approx(prefill_s(9000, 4e-5, 1e-9), rel=1e-12)


def test_reload_of_half_a_gib_at_25_gib_per_s_takes_20_ms() -> None:
    """The worked figure of the economics."""
    assert transfer_s(0.5 * 2**30, 25 * 2**30, 0.0) == pytest.approx(0.020)


def test_no_transfer_costs_nothing() -> None:
    """Without bytes there is no latency either."""
    assert transfer_s(0.0, 1e9, 0.5) == 0.0


def test_a_load_slower_than_recomputing_saves_nothing_on_the_host() -> None:
    """V_H is then the lost store alone."""
    assert value_on_host_s(0.9, recompute_s=0.01, load_s=0.02, store_exposed_s=0.001) == -0.001
    assert value_on_device_s(0.9, 0.01) == pytest.approx(0.009)


@pytest.mark.parametrize(
    ("device_s", "host_s", "device_price", "host_price", "expected"),
    [
        (0.5, 0.4, 0.0, 0.0, KEEP),  # nothing costs anything: the nearest tier
        (0.5, 0.4, 0.3, 0.1, OFFLOAD),  # the device's rent eats more than the load would cost
        (0.5, 0.4, 0.6, 0.5, EVICT),  # worth less than the rent everywhere
        (0.5, -0.1, 0.4, 0.0, KEEP),  # not worth storing, worth its place
        (0.0, 0.0, 0.0, 0.0, KEEP),  # free space may hold anything
    ],
)
def test_decision_follows_from_values_and_prices(
    device_s: float, host_s: float, device_price: float, host_price: float, expected: int
) -> None:
    """KEEP, OFFLOAD and EVICT at a size of one byte."""
    assert decide(device_s, host_s, device_price, host_price, 1.0) == expected


@given(VALUES, VALUES, PRICES, PRICES, st.floats(1.0, 1e8))
def test_the_decision_has_the_largest_surplus(
    device_s: float, host_s: float, device_price: float, host_price: float, size_bytes: float
) -> None:
    """No other choice would have been worth more, an evicted block being worth 0."""
    surplus = {
        KEEP: device_s - device_price * size_bytes,
        OFFLOAD: host_s - host_price * size_bytes,
        EVICT: 0.0,
    }
    assert surplus[decide(device_s, host_s, device_price, host_price, size_bytes)] >= max(surplus.values())


def test_long_runs_are_loaded_and_short_ones_computed() -> None:
    """With a latency of 10 ms, one token is computed and 4,096 are loaded."""
    costs = {"linear_s": 4e-5, "quadratic_s": 1e-9, "bytes_per_s": 50e9, "latency_s": 0.01}
    assert not load_pays(0.0, 1.0, load_bytes=131_072.0, **costs)
    assert load_pays(0.0, 4096.0, load_bytes=4096 * 131_072.0, **costs)
