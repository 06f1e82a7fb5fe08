"""Cost coefficients from a model's dimensions and a machine's rates: what is known before anything is measured."""

from __future__ import annotations

import math

from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec, ModelShape


def profile(model: ModelShape, hardware: HardwareSpec, *, link_bytes_per_s: float | None = None) -> CostProfile:
    """The cost model of one model on one machine.

    Prefill of n tokens after c0 tokens takes ``2 P n`` FLOP in the weights and ``4 L H d`` FLOP per pair of tokens
    that attend to each other, ``n c0 + n (n + 1) / 2`` of them, each at its share of the peak rate.

    Args:
        model: Dimensions of the model.
        hardware: Rates of the machine.
        link_bytes_per_s: Bandwidth between device and host, in both directions, instead of the machine's own.

    Raises:
        ConfigError: the bandwidth is not a positive number.

    Source: Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361, section 2.1 (2 FLOP per weight
    and token); scores and weighted values are two products of width d per head and pair.
    """
    if link_bytes_per_s is not None and not 0.0 < link_bytes_per_s < math.inf:
        raise ConfigError("the link's bandwidth must be a positive number of bytes per second", got=link_bytes_per_s)
    linear_flop_per_s = hardware.peak_flop_per_s * hardware.linear_efficiency
    attention_flop_per_s = hardware.peak_flop_per_s * hardware.attention_efficiency
    load, store, disk = hardware.host_to_device, hardware.device_to_host, hardware.disk_read
    return CostProfile(
        prefill_linear_s=2 * model.n_parameters / linear_flop_per_s,
        prefill_quadratic_s=4 * model.n_layers * model.n_heads * model.head_dim / attention_flop_per_s,
        kv_bytes_per_token=model.kv_bytes_per_token,
        load_bytes_per_s=link_bytes_per_s or load.bytes_per_s,
        load_latency_s=load.latency_s,
        store_bytes_per_s=link_bytes_per_s or store.bytes_per_s,
        store_latency_s=store.latency_s,
        disk_bytes_per_s=disk.bytes_per_s,
        disk_latency_s=disk.latency_s,
        store_exposed_frac=hardware.store_exposed_frac,
        source=_source(model, hardware, link_bytes_per_s),
    )


def _source(model: ModelShape, hardware: HardwareSpec, link_bytes_per_s: float | None) -> str:
    link = "" if link_bytes_per_s is None else f", link set to {link_bytes_per_s / 1e9:g} GB/s"
    return f"dimensions of {model.name} at published and assumed rates of {hardware.name}{link}"
