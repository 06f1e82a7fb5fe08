"""The collector of host facts."""

from __future__ import annotations

from pathlib import Path

from autotune.core.clock import Clock, SystemClock
from autotune.core.signals import Collected, Finding, FindingKind, Reading, Signal, Snapshot
from autotune_collectors.host.devices import DeviceSource, device_facts, numa_facts, nvidia_links
from autotune_collectors.host.memory import memory_facts

_DEVICES_EVERY_S = 300.0  # opening the driver takes tens of milliseconds, and links do not change


class HostCollector:
    """Reads what the kernel tells, in each turn, and what the devices' driver tells, now and then.

    Args:
        clock: Measures how long a turn takes.
        root: Folder that stands for ``/``.
        devices: Tells the links of devices.
    """

    name = "host"

    def __init__(
        self, clock: Clock | None = None, root: Path = Path("/"), devices: DeviceSource = nvidia_links
    ) -> None:
        self._clock = clock or SystemClock()
        self._root = root
        self._devices = devices
        self._links: tuple[dict[Signal, tuple[float, str]], tuple[Finding, ...]] = ({}, ())
        self._asked_s: float | None = None

    def collect(self, now_s: float) -> Collected[object]:
        """A snapshot of the host; what a machine does not have is a finding, not a fault."""
        began_s = self._clock.monotonic_s()
        snapshot = self.snapshot(now_s)
        return Collected(ok=True, seconds=self._clock.monotonic_s() - began_s, snapshot=snapshot)

    def snapshot(self, now_s: float) -> Snapshot:
        """What is known of the host."""
        if self._asked_s is None or now_s - self._asked_s >= _DEVICES_EVERY_S:
            self._asked_s = now_s
            self._links = device_facts(self._devices)
        links, odd = self._links
        facts = memory_facts(self._root) | numa_facts(self._root) | links
        readings = {signal: Reading(value, now_s, source) for signal, (value, source) in facts.items()}
        return Snapshot("host", now_s, readings=readings, findings=(*odd, *_tight(facts)))


def _tight(facts: dict[Signal, tuple[float, str]]) -> list[Finding]:
    """Limits that stop an engine from pinning a host tier."""
    found = []
    memlock = facts.get(Signal.MEMLOCK_LIMIT_BYTES, (float("inf"), ""))[0]
    total = facts.get(Signal.MEMORY_TOTAL_BYTES, (0.0, ""))[0]
    if memlock < min(total, float(1 << 30)):
        found.append(
            Finding(
                FindingKind.NOTE,
                "memlock",
                f"a process may pin {memlock / 1024:,.0f} KiB (seen from here; the engine's own limit may differ)",
                "where the engine pins its host tier with mlock, raise it: ulimit -l unlimited",
            )
        )
    return found
