"""The machine that an engine runs on: what it has room for, and what of it is set up wrongly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from autotune.core.signals import Finding, FindingKind, Signal, Snapshot
from autotune.core.units import GIB, MIB

_SMALL_SHM_BYTES = 256 * MIB  # containers get 64 MiB unless somebody asks for more
_SPARE_FRAC = 0.05  # of the memory, below which it counts as used up
_DISK = (Signal.DISK_WRITE_BYTES, Signal.DISK_READ_BYTES, Signal.DISK_WRITE_BLOCKS, Signal.DISK_LOOKUP_CHUNKS)


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of a machine, in bytes; ``None`` = unknown.

    Attributes:
        memory_bytes: Memory of the machine.
        available_bytes: Of it, what can be had without swapping.
        limit_bytes: What the control group may use; ``None`` also where it has no limit.
        used_bytes: What the control group uses.
        shm_bytes: Size of ``/dev/shm``.
        shm_used_bytes: Use of it.
        pinnable_bytes: What a process may pin; ``None`` also where that has no limit.
        numa_nodes: Nodes that have processors.
        devices: Devices whose driver is there.
        link_bytes_per_s: Nominal bandwidth of the slowest device link, one direction.
    """

    memory_bytes: float | None = None
    available_bytes: float | None = None
    limit_bytes: float | None = None
    used_bytes: float | None = None
    shm_bytes: float | None = None
    shm_used_bytes: float | None = None
    pinnable_bytes: float | None = None
    numa_nodes: float | None = None
    devices: float | None = None
    link_bytes_per_s: float | None = None

    @property
    def room_bytes(self) -> float | None:
        """What a host tier could grow by: the least of what the machine has left and what the group may still use."""
        rooms = [self.available_bytes, _less(self.limit_bytes, self.used_bytes)]
        return min((room for room in rooms if room is not None), default=None)

    @property
    def shm_room_bytes(self) -> float | None:
        """What is left of ``/dev/shm``, where tiered and shared pools lie."""
        return _less(self.shm_bytes, self.shm_used_bytes)


def machine_of(host: Snapshot) -> Machine:
    """The machine, from what the collector of host facts saw."""
    values = {name: host.value(signal) for name, signal in _SIGNALS.items()}
    return Machine(**{name: value for name, value in values.items() if value is not None and math.isfinite(value)})


_SIGNALS = {
    "memory_bytes": Signal.MEMORY_TOTAL_BYTES,
    "available_bytes": Signal.MEMORY_AVAILABLE_BYTES,
    "limit_bytes": Signal.MEMORY_LIMIT_BYTES,
    "used_bytes": Signal.MEMORY_USED_BYTES,
    "shm_bytes": Signal.SHM_SIZE_BYTES,
    "shm_used_bytes": Signal.SHM_USED_BYTES,
    "pinnable_bytes": Signal.MEMLOCK_LIMIT_BYTES,
    "numa_nodes": Signal.NUMA_NODES,
    "devices": Signal.DEVICE_COUNT,
    "link_bytes_per_s": Signal.LINK_BYTES_PER_S,
}


def uses_shm(page: Snapshot) -> bool:
    """Whether the engine keeps its host tier in ``/dev/shm``: one with a disk behind it does.

    Source: vLLM 0.32, v1/kv_offload/cpu/shared_offload_region.py.
    """
    return any(page.knows(signal) for signal in _DISK)


def machine_findings(machine: Machine, page: Snapshot, host_tier_bytes: float | None) -> Iterator[Finding]:
    """What of the machine stands in an engine's way.

    Args:
        machine: The machine.
        page: What the engine says.
        host_tier_bytes: Size of its host tier; ``None`` = none or unknown.
    """
    yield from _little_left(machine)
    yield from _tier_too_large(machine, host_tier_bytes)
    yield from _small_shm(machine, page, host_tier_bytes)
    if machine.numa_nodes is not None and machine.numa_nodes > 1.0:
        yield Finding(
            FindingKind.NOTE,
            "NUMA",
            f"{machine.numa_nodes:.0f} nodes have processors",
            "bind each engine and its host tier to the node of its device: numactl --cpunodebind=N --membind=N",
        )


def _little_left(machine: Machine) -> Iterator[Finding]:
    whole = machine.limit_bytes if machine.limit_bytes is not None else machine.memory_bytes
    room = machine.room_bytes
    if whole and room is not None and room < _SPARE_FRAC * whole:
        yield Finding(
            FindingKind.MISCONFIGURED,
            "memory",
            f"{gib(room)} of {gib(whole)} are left",
            "make the host tier smaller, or give more memory: what is swapped or killed is slower than no tier",
        )


def _tier_too_large(machine: Machine, tier_bytes: float | None) -> Iterator[Finding]:
    known = [each for each in (machine.limit_bytes, machine.memory_bytes) if each is not None]
    if tier_bytes and known and tier_bytes > min(known):
        yield Finding(
            FindingKind.MISCONFIGURED,
            "host tier",
            f"it may hold {gib(tier_bytes)}, the machine or its control group has {gib(min(known))}",
            "make it smaller than the memory: the engine is killed or swaps before it is full",
        )


def _small_shm(machine: Machine, page: Snapshot, tier_bytes: float | None) -> Iterator[Finding]:
    size = machine.shm_bytes
    if size is None:
        return
    remedy = "give the container more: --shm-size, or an emptyDir with medium Memory"
    if uses_shm(page) and tier_bytes and tier_bytes > size:
        yield Finding(
            FindingKind.MISCONFIGURED, "/dev/shm", f"{gib(size)} for a host tier of {gib(tier_bytes)}", remedy
        )
    elif size < _SMALL_SHM_BYTES and (page.engine.ranks > 1 or uses_shm(page)):
        yield Finding(FindingKind.MISCONFIGURED, "/dev/shm", f"it has {gib(size)}, which ranks share", remedy)


def _less(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else max(0.0, whole - part)


def gib(size_bytes: float) -> str:
    """A size in GiB, in three figures."""
    return f"{size_bytes / GIB:.3g} GiB"
