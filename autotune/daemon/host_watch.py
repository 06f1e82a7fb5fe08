"""The machine beside the loop: looked at now and then, never waited for, at a small share of a core at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from autotune.advise.doctor import Machine, machine_of
from autotune.core.signals import Collector, FindingKind, Snapshot
from autotune.daemon.sources import Round, Source
from autotune.daemon.status import HostStatus

EVERY_S = 30.0
MOST_FRAC = 1e-3  # of the time; a look that takes longer is followed by a longer rest
_PATIENCE_S = 10.0  # after which a look that hangs is told as a fault


class HostWatch:
    """Facts of the machine.

    Args:
        collector: Asks the kernel and the devices' driver.
    """

    def __init__(self, collector: Collector[Any]) -> None:
        self._source = Source(collector)
        self._snapshot: Snapshot | None = None
        self._next_s: float | None = None
        self._began_s = 0.0

    def step(self, rounds: Round, now_s: float) -> None:
        """Take what the last look brought, if it has ended, and begin another one if it is time."""
        if self._source.pending is not None:
            self._take(now_s)
        if self._source.pending is None and (self._next_s is None or now_s >= self._next_s):
            rounds.start(self._source, now_s)
            self._began_s, self._next_s = now_s, now_s + EVERY_S

    @property
    def machine(self) -> Machine | None:
        """What is known; ``None`` = nothing yet."""
        return None if self._snapshot is None else machine_of(self._snapshot)

    def findings(self) -> Iterator[str]:
        """What is set up wrongly, in words."""
        for finding in self._snapshot.findings if self._snapshot is not None else ():
            if finding.kind is FindingKind.MISCONFIGURED:
                yield f"this machine: {finding.subject}: {finding.evidence}; {finding.remedy}"

    def status(self, now_s: float) -> HostStatus:
        """It, as the surface shows it."""
        health, machine = self._source.health(now_s), self.machine or Machine()
        known = {each.name: _whole(getattr(machine, each.name)) for each in fields(machine)}
        room = _whole(machine.room_bytes)
        return HostStatus(**known, room_bytes=room, age_s=health.age_s, seconds=health.seconds, error=health.error)

    def _take(self, now_s: float) -> None:
        pending = self._source.pending
        if pending is not None and not pending.done() and now_s - self._began_s < _PATIENCE_S:
            return  # it has had no time yet
        collected = self._source.take(now_s, _PATIENCE_S)
        if collected is None:
            return
        self._next_s = now_s + max(EVERY_S, collected.seconds / MOST_FRAC)
        if collected.ok and collected.snapshot is not None:
            self._snapshot = collected.snapshot


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
