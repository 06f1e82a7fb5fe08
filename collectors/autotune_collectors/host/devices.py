"""NUMA nodes, and the links of NVIDIA devices where there are any; machines without them are ordinary ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autotune.core.signals import Finding, FindingKind, Signal
from autotune_collectors.host.memory import Facts, read

# Bytes per second, lane and direction after encoding. Source: PCI Express Base Specification 6.0, table of data rates.
_LANE_BYTES_PER_S = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """PCIe link of one device.

    Attributes:
        generation: That is in use now; devices lower it when idle.
        max_generation: That device and slot can do together.
        lanes: In use now.
        max_lanes: That device and slot can do together.
    """

    generation: int
    max_generation: int
    lanes: int
    max_lanes: int


class DeviceSource(Protocol):
    """Tells the links of all devices; raises LookupError with the reason where there is no driver or device."""

    def __call__(self) -> list[DeviceLink]:
        """One link per device."""
        ...


def nvidia_links() -> list[DeviceLink]:
    """Links of all NVIDIA devices.

    Raises:
        LookupError: there is no driver, no device, or nvidia-ml-py is not installed; the message says which.
    """
    try:
        import pynvml
    except ImportError as problem:
        raise LookupError("nvidia-ml-py is not installed; pip install 'kv-autotune[sidecar]'") from problem
    nvml: Any = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        raise LookupError(f"no NVIDIA driver: {problem}") from problem
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        return [
            DeviceLink(
                nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
                nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
                nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
                nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
            )
            for handle in handles
        ]
    except nvml.NVMLError as problem:
        raise LookupError(f"the NVIDIA driver does not tell: {problem}") from problem
    finally:
        nvml.nvmlShutdown()


def device_facts(source: DeviceSource) -> tuple[Facts, tuple[Finding, ...]]:
    """Number of devices and the slowest link among them, and what is odd about it."""
    try:
        links = source()
    except LookupError as problem:
        return {}, (Finding(FindingKind.NOTE, "device link", str(problem.args[0]), "calibrate measures the link"),)
    facts: Facts = {Signal.DEVICE_COUNT: (float(len(links)), "NVML")}
    if not links:
        return facts, ()
    slowest = min(links, key=lambda link: _bytes_per_s(link) or 0.0)
    facts[Signal.LINK_GENERATION] = (float(slowest.max_generation), "NVML")
    facts[Signal.LINK_LANES] = (float(slowest.lanes), "NVML")
    if (speed := _bytes_per_s(slowest)) is not None:
        facts[Signal.LINK_BYTES_PER_S] = (speed, "NVML: generation and lanes")
    return facts, tuple(_narrow(links))


def numa_facts(root: Path) -> Facts:
    """Number of NUMA nodes that have processors."""
    text = (
        read(root / "sys/devices/system/node/has_cpu").strip() or read(root / "sys/devices/system/node/online").strip()
    )
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return {}
        count += int(last or first) - int(first) + 1
    return {Signal.NUMA_NODES: (float(count), "/sys/devices/system/node")} if count > 0 else {}


def _bytes_per_s(link: DeviceLink) -> float | None:
    """Of the generation that the link can do, since it is lowered when idle, and of the lanes that are there."""
    lane = _LANE_BYTES_PER_S.get(link.max_generation)
    return None if lane is None else lane * link.lanes


def _narrow(links: list[DeviceLink]) -> list[Finding]:
    return [
        Finding(
            FindingKind.MISCONFIGURED,
            f"device {number}",
            f"its link has {link.lanes} of {link.max_lanes} PCIe lanes",
            "put it into another slot; loads from the host take that much longer",
        )
        for number, link in enumerate(links)
        if link.lanes < link.max_lanes
    ]
