"""What the kernel and a driver tell about the host."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.core.signals import FindingKind, Signal, Snapshot
from autotune.core.units import GIB
from autotune.testing.clocks import ManualClock
from autotune_collectors.host import HostCollector
from autotune_collectors.host.devices import DeviceLink, nvidia_links

SECOND = {"proc/self/cgroup": "0::/slice/engine\n", "sys/fs/cgroup/slice/engine/memory.current": f"{3 * GIB}\n"}
FIRST = {
    "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/box\n0::/\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{8 * GIB}\n",
}


def none() -> list[DeviceLink]:
    """A machine without any driver."""
    raise LookupError("no NVIDIA driver")


def facts(root: Path, files: Mapping[str, str], links: list[DeviceLink] | None = None) -> Snapshot:
    """What is collected where these files are all there is."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    collector = HostCollector(ManualClock(), root, none if links is None else lambda: links)
    collected = collector.collect(7.0)
    assert collected.ok
    assert collected.snapshot is not None
    return collected.snapshot


def test_version_two_limits_anywhere_above(tmp_path: Path) -> None:
    """A group without a limit of its own has that of the group above it."""
    host = facts(
        tmp_path,
        SECOND | {"sys/fs/cgroup/slice/engine/memory.max": "max\n", "sys/fs/cgroup/slice/memory.max": f"{6 * GIB}\n"},
    )
    assert host.value(Signal.MEMORY_LIMIT_BYTES) == 6 * GIB
    assert host.value(Signal.MEMORY_USED_BYTES) == 3 * GIB
    assert host.readings[Signal.MEMORY_LIMIT_BYTES].source == "/sys/fs/cgroup/slice/memory.max"


def test_version_two_without_a_limit(tmp_path: Path) -> None:
    """No limit is unknown, not a number that happens to be large."""
    host = facts(tmp_path, SECOND | {"sys/fs/cgroup/slice/engine/memory.max": "max\n"})
    assert host.value(Signal.MEMORY_LIMIT_BYTES) is None


def test_version_one(tmp_path: Path) -> None:
    """The older files are read, and its figure for no limit is none."""
    assert facts(tmp_path, FIRST).value(Signal.MEMORY_LIMIT_BYTES) == 8 * GIB
    unlimited = FIRST | {"sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712\n"}
    assert facts(tmp_path, unlimited).value(Signal.MEMORY_LIMIT_BYTES) is None


def test_inside_a_container(tmp_path: Path) -> None:
    """Where the group's own path is not visible, the root of what is mounted is the group."""
    files = {
        "proc/self/cgroup": "0::/../outside\n",
        "sys/fs/cgroup/memory.max": f"{GIB}\n",
        "sys/fs/cgroup/memory.current": "1024\n",
    }
    host = facts(tmp_path, files)
    assert (host.value(Signal.MEMORY_LIMIT_BYTES), host.value(Signal.MEMORY_USED_BYTES)) == (GIB, 1024.0)


def test_machine_shared_memory_and_nodes(tmp_path: Path) -> None:
    """Memory comes in KiB, shared memory from its file system, nodes as ranges."""
    (tmp_path / "dev/shm").mkdir(parents=True)
    files = {
        "proc/meminfo": "MemTotal:       1048576 kB\nMemAvailable:    524288 kB\nHugePages_Total:       0\n",
        "sys/devices/system/node/has_cpu": "0-1,3\n",
    }
    host = facts(tmp_path, files)
    assert host.value(Signal.MEMORY_TOTAL_BYTES) == GIB
    assert host.value(Signal.MEMORY_AVAILABLE_BYTES) == GIB / 2
    assert host.value(Signal.NUMA_NODES) == 3.0
    size, used = host.value(Signal.SHM_SIZE_BYTES), host.value(Signal.SHM_USED_BYTES)
    assert size is not None
    assert used is not None
    assert size >= used >= 0.0


def test_nothing_at_all_is_no_fault(tmp_path: Path) -> None:
    """Without files and devices nothing is known but the process' own limit, and that no device is there is said."""
    host = facts(tmp_path, {})
    assert set(host.readings) == {Signal.MEMLOCK_LIMIT_BYTES}
    assert [(f.kind, f.evidence) for f in host.findings if f.subject == "device link"] == [
        (FindingKind.NOTE, "no NVIDIA driver")
    ]


@pytest.mark.parametrize("text", ["", "max", "-5", "12x", "٣", "9" * 40])
def test_broken_files_are_unknown(tmp_path: Path, text: str) -> None:
    """What is no number is unknown."""
    broken = {name: text for name in SECOND if name.startswith("sys")}
    host = facts(tmp_path, SECOND | broken | {"proc/meminfo": f"MemTotal: {text} kB\n"})
    assert host.value(Signal.MEMORY_USED_BYTES) is None
    assert math.isfinite(host.value(Signal.MEMORY_TOTAL_BYTES) or 0.0)


def test_the_slowest_link_counts_at_its_full_generation(tmp_path: Path) -> None:
    """An idle device lowers its generation, not its lanes; one with half its lanes is said."""
    links = [DeviceLink(1, 5, 16, 16), DeviceLink(5, 5, 8, 16)]
    host = facts(tmp_path, {}, links)
    assert host.value(Signal.DEVICE_COUNT) == 2.0
    assert host.value(Signal.LINK_LANES) == 8.0
    assert host.value(Signal.LINK_BYTES_PER_S) == 8 * 3938e6
    assert "8 of 16 PCIe lanes" in "".join(finding.evidence for finding in host.findings)


def test_the_driver_is_asked_now_and_then(tmp_path: Path) -> None:
    """Opening it costs time and links do not change."""
    asked = []

    def links() -> list[DeviceLink]:
        asked.append(1)
        return []

    collector = HostCollector(ManualClock(), tmp_path, links)
    for now_s in (0.0, 5.0, 299.0, 301.0):
        collector.collect(now_s)
    assert len(asked) == 2


def test_a_machine_without_a_driver_says_why() -> None:
    """The real source either tells links or says why it cannot; it never fails in another way."""
    try:
        assert all(isinstance(link, DeviceLink) for link in nvidia_links())
    except LookupError as problem:
        assert str(problem)
