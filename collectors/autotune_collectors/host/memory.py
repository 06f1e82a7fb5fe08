"""Memory of the machine, of the control group, of /dev/shm, and how much of it a process may pin.

Source: Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst; proc(5).
"""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

from autotune.core.signals import Signal

_KIB = 1024
_MAX_FILE_BYTES = 65_536
_NO_LIMIT_BYTES = 1 << 60  # version 1 writes nearly 2**63 where there is no limit
Facts = dict[Signal, tuple[float, str]]


def memory_facts(root: Path) -> Facts:
    """What ``/proc``, ``/sys/fs/cgroup`` and ``/dev/shm`` under ``root`` tell, each with where it comes from.

    A figure that is not to be had is left out; a control group without a limit has none.
    """
    facts: Facts = {}
    facts |= _machine(root)
    facts |= _control_group(root)
    facts |= _shared_memory(root)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = math.inf if soft == resource.RLIM_INFINITY else float(soft)
    facts[Signal.MEMLOCK_LIMIT_BYTES] = (limit, "RLIMIT_MEMLOCK of this process")
    return facts


def _machine(root: Path) -> Facts:
    path = root / "proc/meminfo"
    wanted = {"MemTotal": Signal.MEMORY_TOTAL_BYTES, "MemAvailable": Signal.MEMORY_AVAILABLE_BYTES}
    facts: Facts = {}
    for line in read(path).splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()[0] if rest.split() else ""
        if name in wanted and number.isascii() and number.isdigit():
            facts[wanted[name]] = (float(number) * _KIB, "/proc/meminfo")
    return facts


def _control_group(root: Path) -> Facts:
    """Limit and use of the innermost group that has a limit, of version 2 or 1."""
    folders = _group_folders(root)
    for folder, limit_name, use_name in folders:
        limit, use = _number(folder / limit_name), _number(folder / use_name)
        if use is None:
            continue
        facts: Facts = {Signal.MEMORY_USED_BYTES: (use, _place(folder / use_name, root))}
        for parent in _upwards(folder, root):
            limit = _number(parent / limit_name)
            if limit is not None and limit < _NO_LIMIT_BYTES:
                facts[Signal.MEMORY_LIMIT_BYTES] = (limit, _place(parent / limit_name, root))
                break
        return facts
    return {}


def _group_folders(root: Path) -> list[tuple[Path, str, str]]:
    """Folders where this process' group may lie, with the names of its files; those inside a container too."""
    base = root / "sys/fs/cgroup"
    second, first = "", ""
    for line in read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if number == "0" and not kinds:
            second = path.lstrip("/")
        elif "memory" in kinds.split(","):
            first = path.lstrip("/")
    two, one = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
    places = [(base / second, *two), (base, *two), (base / "memory" / first, *one), (base / "memory", *one)]
    return [place for place in places if ".." not in place[0].parts]


def _upwards(folder: Path, root: Path) -> list[Path]:
    """The folder and those above it, up to the root of the control groups: any of them may limit."""
    base = root / "sys/fs/cgroup"
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(base))]


def _shared_memory(root: Path) -> Facts:
    try:
        found = os.statvfs(root / "dev/shm")
    except OSError:
        return {}
    size = float(found.f_blocks * found.f_frsize)
    used = size - float(found.f_bfree * found.f_frsize)
    return {Signal.SHM_SIZE_BYTES: (size, "/dev/shm"), Signal.SHM_USED_BYTES: (used, "/dev/shm")}


def read(path: Path) -> str:
    """Text of a small file of the kernel, empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _number(path: Path) -> float | None:
    """Number in a file; ``max`` and what is no number are none."""
    text = read(path).strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 25 else None


def _place(path: Path, root: Path) -> str:
    return "/" + str(path.relative_to(root))
