"""A hardware profile, as ``kv-autotune tune --hardware`` takes it, from what was measured on a running server."""

from __future__ import annotations

from calibrate import MeasuredCosts

from autotune.core.shapes import ModelShape
from autotune.core.units import GB

_FLOP_PER_TFLOP = 1e12
_US_PER_S = 1e6
_CHEAP_ATTENTION = 100.0  # how much quicker than the matrix products it is taken to be where it does not show


def hardware_yaml(model: ModelShape, costs: MeasuredCosts) -> str:
    """The text of a profile under which the cost model gives the measured seconds back.

    The profile holds rates and shares; the cost model divides a model's work by them. So the work of this model over
    the measured seconds is the rate, the larger of the two rates is the peak, and each is a share of it.

    Args:
        model: The model that was served.
        costs: What was measured.
    """
    linear_flop_per_s = 2 * model.n_parameters / costs.linear_s
    attention_flop = 4 * model.n_layers * model.n_heads * model.head_dim
    cheap_s = attention_flop / (linear_flop_per_s * _CHEAP_ATTENTION)
    attention_flop_per_s = attention_flop / max(costs.quadratic_s, cheap_s)
    peak_flop_per_s = max(linear_flop_per_s, attention_flop_per_s)
    figures = {
        "device_memory_gb": 1.0,
        "peak_tflop_per_s": peak_flop_per_s / _FLOP_PER_TFLOP,
        "linear_efficiency_frac": linear_flop_per_s / peak_flop_per_s,
        "attention_efficiency_frac": attention_flop_per_s / peak_flop_per_s,
    }
    links = {
        "host_to_device": (costs.load_bytes_per_s, costs.load_latency_s),
        "device_to_host": (costs.store_bytes_per_s, costs.store_latency_s),
        "disk_read": (costs.load_bytes_per_s, costs.load_latency_s),
    }
    source = 'source: "measured on the running server"'
    lines = ["name: this-server", *(f"{name}: {{value: {value!r}, {source}}}" for name, value in figures.items())]
    for name, (bytes_per_s, latency_s) in links.items():
        lines += [
            f"{name}:",
            f"  gb_per_s: {{value: {bytes_per_s / GB!r}, {source}}}",
            f"  latency_us: {{value: {latency_s * _US_PER_S!r}, {source}}}",
        ]
    return "\n".join([*lines, 'store_exposed_frac: {value: 0.0, source: "stores run beside the computation"}', ""])
