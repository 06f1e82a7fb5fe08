"""From measurements to coefficients, and from coefficients to a hardware profile that gives them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calibrate import MeasuredCosts, fit_link, fit_prefill
from hypothesis import given
from hypothesis import strategies as st
from measured_hardware import hardware_yaml

from autotune.costs import load_hardware, profile
from autotune.geometry import load_model

_LENGTHS = np.array([256, 512, 1024, 1536, 2048] * 2)


@given(st.floats(0.0, 0.1), st.floats(1e-6, 1e-3), st.floats(0.0, 1e-6))
def test_prefill_is_found_again(fixed_s: float, linear_s: float, quadratic_s: float) -> None:
    """From times without noise the fit predicts the same times, and no coefficient is negative."""
    pairs = _LENGTHS * (_LENGTHS + 1) / 2
    times = fixed_s + linear_s * _LENGTHS + quadratic_s * pairs
    found = fit_prefill(_LENGTHS, times)
    assert min(found) >= 0.0
    assert found[1] > 0.0
    assert np.allclose(found[0] + found[1] * _LENGTHS + found[2] * pairs, times, rtol=1e-3, atol=1e-6)


@given(st.lists(st.floats(1e-4, 10.0), min_size=10, max_size=10))
def test_no_noise_makes_a_cost_negative(times: list[float]) -> None:
    """Whatever was measured, the coefficients are finite and not negative."""
    found = fit_prefill(_LENGTHS, np.array(times))
    assert all(np.isfinite(found))
    assert min(found) >= 0.0
    assert found[1] > 0.0


@given(st.floats(1e6, 1e11), st.floats(0.0, 0.01))
def test_link_is_found_again(bytes_per_s: float, latency_s: float) -> None:
    """Short and long transfers together tell bandwidth from latency."""
    short, long = (4.0, 4 * 131_072.0), (6.0, 6 * 4_194_304.0)
    seconds = [n * latency_s + size / bytes_per_s for n, size in (short, long)]
    found_bytes_per_s, found_latency_s = fit_link((*short, seconds[0]), (*long, seconds[1]))
    for n, size in (short, long):
        expected = n * latency_s + size / bytes_per_s
        assert n * found_latency_s + size / found_bytes_per_s == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("quadratic_s", [7e-8, 1e-9, 0.0])
def test_profile_gives_the_measured_seconds_back(quadratic_s: float, tmp_path: Path) -> None:
    """The cost model under the written profile has the measured coefficients, whichever rate is the higher."""
    measured = MeasuredCosts(0.01, 4e-5, quadratic_s, 0.008, 4.5e8, 2.5e-4, 4.0e8, 3e-4)
    shape = load_model("llama-3.2-1b")
    (tmp_path / "hardware.yaml").write_text(hardware_yaml(shape, measured), encoding="utf-8")
    costs = profile(shape, load_hardware(str(tmp_path / "hardware.yaml")))
    assert costs.prefill_linear_s == pytest.approx(4e-5)
    assert costs.prefill_quadratic_s == pytest.approx(quadratic_s, rel=1e-6, abs=1e-9)
    assert (costs.load_bytes_per_s, costs.store_bytes_per_s) == pytest.approx((4.5e8, 4.0e8))
    assert (costs.load_latency_s, costs.store_latency_s) == pytest.approx((2.5e-4, 3e-4))
