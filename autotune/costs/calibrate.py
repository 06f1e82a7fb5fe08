"""Measures the links of the machine at hand: every size, both directions, pinned and pageable.

Where there is no GPU, copies within host memory are measured in its place, and everything that comes of it says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune.core.shapes import LinkSpec
from autotune.core.telemetry.wire import Direction
from autotune.core.units import GB, GIB
from autotune.costs.copy_bench import CopyBench, Memory
from autotune.costs.transfer import TransferFit, TransferSamples, fit_transfer

SMALLEST_BYTES = 64 * 1024
LARGEST_BYTES = GIB
REPEATS = 7
_ASSUMED = LinkSpec(10e9, 20e-6)


@dataclass(frozen=True, slots=True)
class Copies:
    """One size, copied in one way.

    Attributes:
        memory: How the host's end was held.
        direction: Which way.
        size_bytes: Bytes of one copy.
        seconds: Each measurement, per copy.
    """

    memory: Memory
    direction: Direction
    size_bytes: int
    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Seconds of one copy."""
        return statistics.median(self.seconds)

    @property
    def gb_per_s(self) -> float:
        """Rate of one copy, its latency included."""
        return self.size_bytes / self.median_s / GB


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on one machine.

    Attributes:
        device: Name of the device, or of the processor where copies stayed in host memory.
        is_gpu: Whether a link to a device was measured.
        torch_version: What copied.
        measured_at_utc: When, as ``2026-01-31T12:00:00Z``.
        copies: Every size, direction and kind of memory.
    """

    device: str
    is_gpu: bool
    torch_version: str
    measured_at_utc: str
    copies: tuple[Copies, ...]

    def link(self, memory: Memory, direction: Direction) -> TransferFit:
        """Latency and bandwidth through all sizes of one kind.

        Raises:
            ConfigError: none of that kind was measured.
        """
        rows = [one for one in self.copies if (one.memory, one.direction) == (memory, direction)]
        if not rows:
            raise ConfigError("a link needs copies of its kind", got=f"no {memory} {direction}")
        size = [one.size_bytes for one in rows for _ in one.seconds]
        seconds = [taken for one in rows for taken in one.seconds]
        return fit_transfer(TransferSamples.of(size, seconds), _ASSUMED, "a guess")

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Kinds of memory that were measured, the faster one first."""
        kinds = {one.memory for one in self.copies}
        return tuple(kind for kind in Memory if kind in kinds)

    @property
    def origin(self) -> str:
        """What was copied where, in words."""
        way = (
            f"between host memory and {self.device}" if self.is_gpu else f"within host memory of {self.device}, no GPU"
        )
        return f"measured {self.measured_at_utc}: copies {way}, torch {self.torch_version}"


def sizes(largest_bytes: int = LARGEST_BYTES, smallest_bytes: int = SMALLEST_BYTES) -> tuple[int, ...]:
    """Powers of four from the smallest on, and the largest itself.

    Raises:
        ConfigError: the largest is smaller than the smallest, or larger than a copy may be.
    """
    if not smallest_bytes <= largest_bytes <= 64 * GIB:
        raise ConfigError(f"the largest copy has {smallest_bytes:,} bytes to 64 GiB", got=f"{largest_bytes:,} bytes")
    found = [smallest_bytes]
    while found[-1] * 4 <= largest_bytes:
        found.append(found[-1] * 4)
    return tuple(dict.fromkeys([*found, largest_bytes]))


def measure(
    clock: Clock,
    copy_sizes: Sequence[int] | None = None,
    repeats: int = REPEATS,
    on_step: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Calibration:
    """Copy every size both ways, pinned and pageable; what does not fit into free memory is left out.

    Args:
        clock: Tells how long a copy takes, and when all this was.
        copy_sizes: Bytes of the copies; :func:`sizes` if not given.
        repeats: Measurements of each.
        on_step: Told what is measured next, how many steps are done and how many there are.

    Raises:
        MissingExtraError: torch is not installed.
        ConfigError: not even the smallest copy fits into free memory.
    """
    bench = CopyBench(clock)
    room = bench.room_bytes()
    fitting = [size for size in (copy_sizes or sizes()) if size <= room]
    if not fitting:
        raise ConfigError("a copy must fit into a quarter of free memory", got=f"room for {room:,} bytes")
    steps = [(memory, way, size) for memory in bench.memories() for way in Direction for size in fitting]
    copies = []
    for done, (memory, way, size) in enumerate(steps):
        on_step(f"{memory} {way}", done, len(steps))
        copies.append(Copies(memory, way, size, tuple(bench.copy_s(memory, way, size, repeats))))
    on_step("done", len(steps), len(steps))
    moment = clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return Calibration(bench.device_name(), bench.is_gpu, bench.torch_version, moment, tuple(copies))
