"""A machine by name or by a file of the same form."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec, LinkSpec
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.units import GB
from autotune.core.validation import Strict, nearest, validate

_FOLDER = resources.files("autotune_configs") / "hardware"
_FLOP_PER_TFLOP = 1e12
_US_PER_S = 1e6


class _Amount(Strict):
    """A number that may be 0, and where it comes from."""

    value: float = Field(ge=0.0, le=1e9)
    source: str = Field(min_length=1)


class _PositiveAmount(_Amount):
    value: float = Field(gt=0.0, le=1e9)


class _Share(_Amount):
    value: float = Field(ge=0.0, le=1.0)


class _PositiveShare(_Amount):
    value: float = Field(gt=0.0, le=1.0)


class _Link(Strict):
    gb_per_s: _PositiveAmount
    latency_us: _Amount

    def spec(self) -> LinkSpec:
        """In bytes and seconds."""
        return LinkSpec(self.gb_per_s.value * GB, self.latency_us.value / _US_PER_S)


class _HardwareFile(Strict):
    """What a file in ``configs/autotune_configs/hardware`` says: every figure with its source."""

    name: str = Field(min_length=1)
    device_memory_gb: _PositiveAmount
    device_memory_gb_per_s: _PositiveAmount | None = None
    peak_tflop_per_s: _PositiveAmount
    linear_efficiency_frac: _PositiveShare
    attention_efficiency_frac: _PositiveShare
    host_to_device: _Link
    device_to_host: _Link
    disk_read: _Link
    store_exposed_frac: _Share


def hardware_names() -> tuple[str, ...]:
    """Names of the machines that come along, sorted."""
    return tuple(sorted(f.name.removesuffix(".yaml") for f in _FOLDER.iterdir() if f.name.endswith(".yaml")))


def load_hardware(name_or_path: str) -> HardwareSpec:
    """What a machine can do.

    Args:
        name_or_path: A name from :func:`hardware_names`, or a YAML file written like those in
            ``configs/autotune_configs/hardware``.

    Raises:
        ConfigError: no such machine, or a file that breaks a rule.
    """
    if name_or_path in hardware_names():
        return _from_yaml((_FOLDER / f"{name_or_path}.yaml").read_text("utf-8"), f"hardware {name_or_path}")
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(
            "hardware is a known name or the path of a YAML file",
            got=repr(name_or_path),
            remedy=nearest(name_or_path, hardware_names()),
        )
    return _from_yaml(read_text(path, ConfigError), str(path))


def with_link(hardware: HardwareSpec, bytes_per_s: float) -> HardwareSpec:
    """The same machine with another link between device and host, in both directions."""
    return replace(
        hardware,
        host_to_device=replace(hardware.host_to_device, bytes_per_s=bytes_per_s),
        device_to_host=replace(hardware.device_to_host, bytes_per_s=bytes_per_s),
    )


def _from_yaml(text: str, what: str) -> HardwareSpec:
    entry = validate(_HardwareFile, parse_mapping(text, ConfigError), ConfigError, what)
    return HardwareSpec(
        name=entry.name,
        device_memory_bytes=int(entry.device_memory_gb.value * GB),
        peak_flop_per_s=entry.peak_tflop_per_s.value * _FLOP_PER_TFLOP,
        linear_efficiency=entry.linear_efficiency_frac.value,
        attention_efficiency=entry.attention_efficiency_frac.value,
        host_to_device=entry.host_to_device.spec(),
        device_to_host=entry.device_to_host.spec(),
        disk_read=entry.disk_read.spec(),
        store_exposed_frac=entry.store_exposed_frac.value,
        device_bytes_per_s=entry.device_memory_gb_per_s.value * GB if entry.device_memory_gb_per_s else None,
    )
