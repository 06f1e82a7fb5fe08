"""Copies between host and device with torch, and the seconds that they take. Nothing else imports torch."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from autotune.core.clock import Clock
from autotune.core.errors import MissingExtraError
from autotune.core.telemetry.wire import Direction
from autotune.core.units import GIB

_FREE_FRAC = 0.25  # of the memory that is free, for each of the two ends of a copy
_ENOUGH_S = 0.05  # copies too short for the clock are repeated until they take this together
_MOST_COPIES = 1_000
_MEMORY = Path("/proc/meminfo")


class Memory(StrEnum):
    """How the host's end of a copy is held."""

    PINNED = "pinned"  # locked, so that the device reads it by itself
    PAGEABLE = "pageable"  # ordinary memory, copied once more on the way


class CopyBench:
    """Copies with torch.

    Args:
        clock: Tells how long a copy takes.

    Raises:
        MissingExtraError: torch is not installed.
    """

    def __init__(self, clock: Clock) -> None:
        self._torch = torch = _import_torch()
        self._clock = clock
        self.is_gpu = bool(torch.cuda.is_available())
        self.torch_version = str(torch.__version__)
        if not self.is_gpu:
            torch.set_num_threads(1)  # threads that wait for each other would measure the scheduler

    def device_name(self) -> str:
        """Name of the GPU, else of the processor."""
        if self.is_gpu:
            return str(self._torch.cuda.get_device_name())
        return platform.processor() or platform.machine() or "this processor"

    def memories(self) -> tuple[Memory, ...]:
        """Kinds of memory that mean something here: without a GPU nobody reads memory that is locked for one."""
        return tuple(Memory) if self.is_gpu else (Memory.PAGEABLE,)

    def room_bytes(self) -> int:
        """Largest copy: a quarter of what is free, on the device too."""
        free = _free_host_bytes()
        if self.is_gpu:
            free = min(free, int(self._torch.cuda.mem_get_info()[0]))
        return int(free * _FREE_FRAC)

    def copy_s(self, memory: Memory, way: Direction, size_bytes: int, repeats: int) -> Iterator[float]:
        """Seconds per copy, measured several times; the first ones, which touch the memory, do not count."""
        torch = self._torch
        host = torch.ones(size_bytes, dtype=torch.uint8, pin_memory=memory is Memory.PINNED)
        device = torch.zeros(size_bytes, dtype=torch.uint8, device="cuda" if self.is_gpu else "cpu")
        target, source = (device, host) if way is Direction.LOAD else (host, device)
        n_copies = min(max(1, round(_ENOUGH_S / self._timed_s(target, source, 2))), _MOST_COPIES)
        for _ in range(repeats):
            yield self._timed_s(target, source, n_copies)

    def _timed_s(self, target: Any, source: Any, n_copies: int) -> float:
        """Seconds per copy; each waits for the one before, as loads of one request do."""
        self._synchronize()
        began_s = self._clock.monotonic_s()
        for _ in range(n_copies):
            target.copy_(source, non_blocking=True)
            self._synchronize()
        return max((self._clock.monotonic_s() - began_s) / n_copies, 1e-9)

    def _synchronize(self) -> None:
        if self.is_gpu:
            self._torch.cuda.synchronize()


def _free_host_bytes() -> int:
    """Memory that may be taken without others being pushed out. Source: proc(5), MemAvailable."""
    try:
        lines = _MEMORY.read_text("ascii").splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 4 * GIB
    return kib * 1024


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtraError(
            "measuring links needs the package torch",
            got="it is not installed",
            remedy="run this where the engine is installed, or: pip install torch",
        ) from problem
    return torch
