"""Machines that come along by name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from autotune.core.errors import ConfigError
from autotune.costs import hardware_names, load_hardware


def test_h100() -> None:
    """One H100 SXM: 80 GB, 400 TFLOP/s of effective prefill, a PCIe Gen5 link below its 64 GB/s."""
    machine = load_hardware("h100-sxm")
    assert machine.device_memory_bytes == 80_000_000_000
    assert machine.peak_flop_per_s == 989.4e12
    assert machine.peak_flop_per_s * machine.linear_efficiency == pytest.approx(400e12, rel=1e-3)
    assert machine.attention_efficiency == machine.linear_efficiency
    assert 25e9 <= machine.host_to_device.bytes_per_s <= 55e9
    assert machine.host_to_device.latency_s == pytest.approx(20e-6)
    assert machine.store_exposed_frac == 0.0


@pytest.mark.parametrize("name", hardware_names())
def test_every_machine_loads(name: str) -> None:
    """Every file is named after its machine, is physically possible, and says what a store's exposure means."""
    machine = load_hardware(name)
    assert machine.name == name
    assert 0.0 < machine.linear_efficiency <= 1.0
    assert machine.device_bytes_per_s is not None
    assert 500e9 < machine.device_bytes_per_s < 10e12
    assert machine.disk_read.bytes_per_s < machine.host_to_device.bytes_per_s < 64e9
    text = (resources.files("autotune_configs") / "hardware" / f"{name}.yaml").read_text("utf-8")
    assert "favours policies that store less" in text


def test_unknown_name_gets_the_nearest() -> None:
    """A misspelt name is answered with the nearest."""
    with pytest.raises(ConfigError, match="got 'h100'; did you mean 'h100-sxm'"):
        load_hardware("h100")


def _h100_text() -> str:
    return (resources.files("autotune_configs") / "hardware/h100-sxm.yaml").read_text("utf-8")


def test_own_file(tmp_path: Path) -> None:
    """A copy with another link is read by its path."""
    path = tmp_path / "mine.yaml"
    path.write_text(_h100_text().replace("value: 50,", "value: 12.5,"), encoding="utf-8")
    assert load_hardware(str(path)).device_to_host.bytes_per_s == 12.5e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value: 50,", "value: 0,", "host_to_device.gb_per_s.value must be greater than 0.0; got 0"),
        ("value: 0.404,", "value: 40,", "linear_efficiency_frac.value must be at most 1.0"),
        ('value: 80, source: "NVIDIA H100 datasheet, H100 SXM"', "value: 80", "device_memory_gb.source must be given"),
        ("latency_us", "latency_ms", "host_to_device.latency_ms is not a known name"),
    ],
)
def test_faults_are_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    """An impossible figure, or one without its source, is one line with the file and the field."""
    path = tmp_path / "mine.yaml"
    path.write_text(_h100_text().replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_hardware(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")
