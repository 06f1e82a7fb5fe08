"""From measured copies to links and to a profile that loads; the measuring itself runs where torch is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.core.clock import SystemClock
from autotune.core.errors import ConfigError, MissingExtraError
from autotune.core.telemetry.wire import Direction
from autotune.core.units import GIB, MIB
from autotune.costs import load_hardware
from autotune.costs.calibrate import Calibration, Copies, sizes
from autotune.costs.copy_bench import CopyBench, Memory
from autotune.costs.hardware_text import hardware_yaml


def made(is_gpu: bool = True) -> Calibration:
    """Copies of a link of 24 GB/s and 12 µs one way, 18 GB/s and 9 µs the other; pageable memory is half as fast."""
    draw = np.random.default_rng(1)
    copies = []
    for memory in Memory if is_gpu else (Memory.PAGEABLE,):
        for way, latency_s, bytes_per_s in ((Direction.LOAD, 12e-6, 24e9), (Direction.STORE, 9e-6, 18e9)):
            slow = 1.0 if memory is Memory.PINNED else 2.0
            for size in sizes():
                noise = np.exp(0.03 * draw.standard_normal(7))
                seconds = slow * (latency_s + size / bytes_per_s) * noise
                copies.append(Copies(memory, way, size, tuple(seconds.tolist())))
    return Calibration("a GPU", is_gpu, "2.13", "2026-01-31T12:00:00Z", tuple(copies))


def test_sizes_reach_from_64_kib_to_1_gib() -> None:
    """Powers of four, and the largest itself where it is none."""
    assert sizes()[0] == 64 * 1024
    assert sizes()[-1] == GIB
    assert sizes(100 * 1024) == (64 * 1024, 100 * 1024)
    with pytest.raises(ConfigError, match="largest copy"):
        sizes(1024)


def test_links_come_out_of_all_sizes() -> None:
    """Bandwidth and latency of each direction and kind of memory are those that the copies were made with."""
    found = made()
    load, store = (found.link(Memory.PINNED, way) for way in Direction)
    assert load.bytes_per_s == pytest.approx(24e9, rel=0.03)
    assert load.latency_s == pytest.approx(12e-6, rel=0.1)
    assert store.bytes_per_s == pytest.approx(18e9, rel=0.03)
    assert found.link(Memory.PAGEABLE, Direction.LOAD).bytes_per_s == pytest.approx(12e9, rel=0.03)
    with pytest.raises(ConfigError, match="no pinned load"):
        made(is_gpu=False).link(Memory.PINNED, Direction.LOAD)


def test_profile_loads_with_the_measured_links(tmp_path: Path) -> None:
    """The written profile is one that --hardware takes: links of pinned memory, all else of the other profile."""
    path = tmp_path / "mine.yaml"
    path.write_text(hardware_yaml(made(), load_hardware("h200-sxm"), 'my "own" machine'), encoding="utf-8")
    mine, base = load_hardware(str(path)), load_hardware("h200-sxm")
    assert mine.name == "my 'own' machine"
    assert mine.host_to_device.bytes_per_s == pytest.approx(24e9, rel=0.03)
    assert mine.device_to_host.latency_s == pytest.approx(9e-6, rel=0.1)
    assert mine.peak_flop_per_s == pytest.approx(base.peak_flop_per_s)
    assert mine.device_memory_bytes == base.device_memory_bytes
    assert mine.disk_read == base.disk_read
    text = path.read_text("utf-8")
    assert "pinned memory, measured 2026-01-31T12:00:00Z" in text
    assert "not measured: as h200-sxm" in text


def test_profile_of_a_base_without_memory_rate_loads(tmp_path: Path) -> None:
    """What the other profile does not say, the new one does not say either."""
    path = tmp_path / "mine.yaml"
    base = replace(load_hardware("h100-sxm"), device_bytes_per_s=None)
    path.write_text(hardware_yaml(made(), base, "mine"), encoding="utf-8")
    assert load_hardware(str(path)).device_bytes_per_s is None


def test_copies_without_a_gpu_say_so(tmp_path: Path) -> None:
    """Copies within host memory are named as such wherever the profile gives their source."""
    text = hardware_yaml(made(is_gpu=False), load_hardware("h100-sxm"), "mine")
    assert text.count("copies within host memory of a GPU, no GPU") == 5
    assert "pinned" not in text


def test_without_torch_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without torch is told where to run this and how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match="pip install torch"):
        CopyBench(SystemClock())


def test_a_rate_is_that_of_the_median() -> None:
    """One slow measurement does not change what a size is shown with."""
    one = Copies(Memory.PINNED, Direction.LOAD, MIB, (1e-3, 1e-3, 1.0))
    assert one.median_s == 1e-3
    assert one.gb_per_s == pytest.approx(MIB / 1e-3 / 1e9)
