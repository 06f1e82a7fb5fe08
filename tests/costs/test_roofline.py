"""Cost coefficients from dimensions and rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.decide.value import transfer_s
from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec, LinkSpec, ModelShape
from autotune.costs import break_even_tokens, load_hardware, profile
from autotune.geometry import load_model

EIGHT_B = ModelShape("8b", 8_030_000_000, 32, 32, 8, 128, "bfloat16", 2)
LINK = LinkSpec(bytes_per_s=25.0 * 2**30, latency_s=0.0)
MACHINE = HardwareSpec("400 TFLOP/s", 80 * 10**9, 400e12, 1.0, 1.0, LINK, LINK, LINK, 0.0)
COSTS = profile(EIGHT_B, MACHINE)


def recompute_s(costs: CostProfile, n_tokens: int, after_tokens: int) -> float:
    """Seconds to compute ``n_tokens`` given that the ``after_tokens`` before them are present."""
    ends = costs.prefill_s([after_tokens, after_tokens + n_tokens])
    return float(ends[1] - ends[0])


@pytest.mark.parametrize(
    ("n_tokens", "after_tokens", "milliseconds"),
    [(4096, 0, 175.45), (4096, 4096, 197.44), (4096, 126_976, 857.15), (131_072, 0, 16_521.6)],
)
def test_prefill(n_tokens: int, after_tokens: int, milliseconds: float) -> None:
    """8.03e9 weights, 32 layers of 32 heads of 128 at 400 TFLOP/s give the known times."""
    assert 1e3 * recompute_s(COSTS, n_tokens, after_tokens) == pytest.approx(milliseconds, abs=0.05)


@pytest.mark.parametrize(("n_tokens", "milliseconds"), [(4096, 20.0), (131_072, 640.0)])
def test_load(n_tokens: int, milliseconds: float) -> None:
    """512 MiB over 25 GiB/s take 20 ms, and 16 GiB 640 ms."""
    n_bytes = n_tokens * COSTS.kv_bytes_per_token
    assert 1e3 * transfer_s(n_bytes, COSTS.load_bytes_per_s, COSTS.load_latency_s) == pytest.approx(milliseconds)


def test_break_even_link() -> None:
    """At 2.8498 GiB/s loading 4,096 tokens takes as long as computing them: above it pays, below it does not."""
    link = 4096 * COSTS.kv_bytes_per_token / recompute_s(COSTS, 4096, 0)
    assert link / 2**30 == pytest.approx(2.8498, abs=1e-4)
    faster = break_even_tokens(profile(EIGHT_B, MACHINE, link_bytes_per_s=link * 1.0001), 0, 1)
    slower = break_even_tokens(profile(EIGHT_B, MACHINE, link_bytes_per_s=link * 0.9999), 0, 1)
    assert faster is not None
    assert slower is not None
    assert faster <= 4096 < slower


def test_named_model_on_named_machine() -> None:
    """llama-3.1-8b on h100-sxm: 4,096 tokens take about 175 ms, and both link directions are the machine's."""
    machine = load_hardware("h100-sxm")
    costs = profile(load_model("llama-3.1-8b"), machine)
    assert float(costs.prefill_s(4096)) == pytest.approx(0.1755, rel=2e-3)
    assert costs.load_bytes_per_s == machine.host_to_device.bytes_per_s
    assert costs.store_bytes_per_s == machine.device_to_host.bytes_per_s
    assert costs.disk_latency_s == machine.disk_read.latency_s
    assert "llama-3.1-8b" in costs.source
    assert "h100-sxm" in costs.source


def test_link_can_be_set() -> None:
    """A given bandwidth replaces that of both directions, keeps the rest, and is said in the source."""
    costs = profile(EIGHT_B, MACHINE, link_bytes_per_s=40e9)
    assert (costs.load_bytes_per_s, costs.store_bytes_per_s) == (40e9, 40e9)
    assert costs.source.endswith("link set to 40 GB/s")
    assert (
        replace(costs, load_bytes_per_s=LINK.bytes_per_s, store_bytes_per_s=LINK.bytes_per_s, source=COSTS.source)
        == COSTS
    )


@pytest.mark.parametrize("link", [0.0, -1.0, math.nan, math.inf])
def test_impossible_link_is_refused(link: float) -> None:
    """A bandwidth that is no positive number is an error."""
    with pytest.raises(ConfigError, match="bandwidth must be a positive number"):
        profile(EIGHT_B, MACHINE, link_bytes_per_s=link)


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_prefill_adds_up(first: int, second: int) -> None:
    """Computing a prompt in two parts takes as long as in one, and later tokens never take less."""
    whole = recompute_s(COSTS, first + second, 0)
    assert recompute_s(COSTS, first, 0) + recompute_s(COSTS, second, first) == pytest.approx(whole, rel=1e-9)
    assert np.all(np.diff(COSTS.prefill_s(np.arange(0, 1000)), n=2) >= -1e-15)
