"""What a block is worth on each tier, and the decision that follows from prices."""

from __future__ import annotations


def prefill_s(n_tokens: float, linear_s: float, quadratic_s: float) -> float:
    """Seconds to prefill a prompt of ``n_tokens`` from nothing: ``linear * n + quadratic * n * (n + 1) / 2``.

    The seconds of tokens [a, b) given their prefix are ``prefill_s(b) - prefill_s(a)``.
    """
    return linear_s * n_tokens + quadratic_s * n_tokens * (n_tokens + 1.0) * 0.5


def transfer_s(n_bytes: float, bytes_per_s: float, latency_s: float) -> float:
    """Seconds for one transfer: fixed latency plus bytes over bandwidth; nothing costs nothing."""
    if n_bytes <= 0.0:
        return 0.0
    return latency_s + n_bytes / bytes_per_s


def value_on_device_s(reuse_probability: float, recompute_s: float) -> float:
    """Expected seconds saved by keeping a block on the device: ``P * r``."""
    return reuse_probability * recompute_s


def value_on_host_s(reuse_probability: float, recompute_s: float, load_s: float, store_exposed_s: float) -> float:
    """Expected seconds saved by a copy on the host: ``P * max(0, r - l) - st``."""
    gain_s = recompute_s - load_s
    return reuse_probability * (gain_s if gain_s > 0.0 else 0.0) - store_exposed_s


KEEP = 0
OFFLOAD = 1
EVICT = 2


def decide(
    value_device_s: float,
    value_host_s: float,
    device_price_s_per_byte: float,
    host_price_s_per_byte: float,
    size_bytes: float,
) -> int:
    """KEEP, OFFLOAD or EVICT for an idle block under the prices of both tiers.

    KEEP if ``V_D - mu_D s >= max(V_H - mu_H s, 0)``; OFFLOAD if ``V_H - mu_H s >= 0``; EVICT otherwise.
    """
    surplus_device_s = value_device_s - device_price_s_per_byte * size_bytes
    surplus_host_s = value_host_s - host_price_s_per_byte * size_bytes
    if surplus_device_s >= max(surplus_host_s, 0.0):
        return KEEP
    if surplus_host_s >= 0.0:
        return OFFLOAD
    return EVICT


def load_pays(
    start_tokens: float,
    end_tokens: float,
    linear_s: float,
    quadratic_s: float,
    load_bytes: float,
    bytes_per_s: float,
    latency_s: float,
) -> bool:
    """Whether loading tokens [start, end) takes less time than computing them."""
    recompute_s = prefill_s(end_tokens, linear_s, quadratic_s) - prefill_s(start_tokens, linear_s, quadratic_s)
    return transfer_s(load_bytes, bytes_per_s, latency_s) < recompute_s
