"""A hardware profile as text, with measured links and the source of every figure."""

from __future__ import annotations

from autotune.core.shapes import HardwareSpec
from autotune.core.telemetry.wire import Direction
from autotune.core.units import GB
from autotune.costs.calibrate import Calibration
from autotune.costs.transfer import TransferFit

_US_PER_S = 1e6
_FLOP_PER_TFLOP = 1e12


def hardware_yaml(found: Calibration, base: HardwareSpec, name: str) -> str:
    """A hardware profile with the measured links; what was not measured is taken from another profile, and says so.

    Args:
        found: The measurement. Pinned memory counts where it was measured, because engines hold their KV in it.
        base: Profile of the same kind of processor: compute, memory and disk are its.
        name: Of the new profile.
    """
    memory = found.memories[0]
    taken = f"not measured: as {base.name}"
    lines = [
        f"# Links of one machine, {found.origin}.",
        "# Everything else is that of another profile; replace what you know better. 1 GB = 10^9 bytes.",
        f"name: {_quoted(name)}",
        _amount("device_memory_gb", base.device_memory_bytes / GB, taken),
        *([_amount("device_memory_gb_per_s", base.device_bytes_per_s / GB, taken)] if base.device_bytes_per_s else []),
        _amount("peak_tflop_per_s", base.peak_flop_per_s / _FLOP_PER_TFLOP, taken),
        _amount("linear_efficiency_frac", base.linear_efficiency, taken),
        _amount("attention_efficiency_frac", base.attention_efficiency, taken),
    ]
    for field, way in (("host_to_device", Direction.LOAD), ("device_to_host", Direction.STORE)):
        lines += _link(field, found.link(memory, way), f"{memory} memory, {found.origin}")
    lines += ["disk_read:", f"  {_amount('gb_per_s', base.disk_read.bytes_per_s / GB, taken)}"]
    lines += [f"  {_amount('latency_us', base.disk_read.latency_s * _US_PER_S, taken)}"]
    return "\n".join([*lines, _amount("store_exposed_frac", base.store_exposed_frac, taken), ""])


def _link(field: str, fit: TransferFit, source: str) -> list[str]:
    bandwidth, latency, _ = fit.estimates("link", 0.0)
    spread = f"95 % {bandwidth.low / GB:.3g} to {bandwidth.high / GB:.3g}"
    wait = f"95 % {latency.low * _US_PER_S:.3g} to {latency.high * _US_PER_S:.3g}"
    return [
        f"{field}:",
        f"  {_amount('gb_per_s', fit.bytes_per_s / GB, f'{spread}; {source}')}",
        f"  {_amount('latency_us', fit.latency_s * _US_PER_S, f'{wait}; {source}')}",
    ]


def _amount(name: str, value: float, source: str) -> str:
    return f"{name}: {{value: {float(f'{value:.6g}')!r}, source: {_quoted(source)}}}"


def _quoted(text: str) -> str:
    kept = "".join(c for c in text if c.isprintable()).replace("\\", "/").replace('"', "'")
    return f'"{kept}"'
