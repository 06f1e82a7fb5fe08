"""The machine is looked at beside the loop: seldom, cheaply, and so that advice fits it."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sidecar_parts import SETTINGS, Bench, InPlace

from autotune.core.signals import Collected, Finding, FindingKind, Reading, Signal, Snapshot, Target
from autotune.core.units import GIB, MIB
from autotune.daemon.dashboard import picture
from autotune.daemon.host_watch import EVERY_S, MOST_FRAC, HostWatch
from autotune.daemon.jobs import HostSize, OutcomeKind, TuneOutcome
from autotune.daemon.sources import Source
from autotune.daemon.status import DaemonStatus, Mode, VerdictKind
from autotune.daemon.status_view import daemon_status, explain
from autotune.daemon.verdict import verdict_of
from autotune.daemon.windows import Window
from autotune.daemon.wiring import Wanted, build
from autotune.testing.clocks import ManualClock

PLENTY = {
    Signal.MEMORY_TOTAL_BYTES: 512.0 * GIB,
    Signal.MEMORY_AVAILABLE_BYTES: 300.0 * GIB,
    Signal.SHM_SIZE_BYTES: 64.0 * GIB,
    Signal.SHM_USED_BYTES: 1.0 * GIB,
    Signal.MEMLOCK_LIMIT_BYTES: float("inf"),
    Signal.NUMA_NODES: 2.0,
}
NARROW = Finding(FindingKind.MISCONFIGURED, "device 0", "its link has 4 of 16 PCIe lanes", "put it into another slot")
NOTE = Finding(FindingKind.NOTE, "device link", "no NVIDIA driver")


class Kernel:
    """A collector of host facts that says what a test wants.

    Args:
        facts: What it sees.
        seconds: What a look takes.
    """

    name = "host"

    def __init__(self, facts: dict[Signal, float], seconds: float = 0.001) -> None:
        self.facts, self.seconds, self.looks = facts, seconds, list[float]()

    def collect(self, now_s: float) -> Collected[Any]:
        """One look."""
        self.looks.append(now_s)
        readings = {signal: Reading(value, now_s, "kernel") for signal, value in self.facts.items()}
        return Collected(
            ok=True, seconds=self.seconds, snapshot=Snapshot("host", now_s, readings=readings, findings=(NARROW, NOTE))
        )


def watched(kernel: Kernel, seconds: int) -> list[float]:
    """When it looked, where the loop has a round per second for that long."""
    watch, rounds = HostWatch(kernel), InPlace()
    for now_s in range(seconds):
        watch.step(rounds, float(now_s))
    return kernel.looks


def test_looks_are_seldom_whatever_the_pace_of_the_loop() -> None:
    """Rounds may come every second; the machine is looked at when the interval has gone."""
    looks = watched(Kernel(PLENTY), 100)
    assert len(looks) == 4
    assert all(later - earlier >= EVERY_S for earlier, later in pairwise(looks))


@pytest.mark.parametrize("seconds", [0.1, 0.5])
def test_a_look_that_takes_long_is_followed_by_a_longer_rest(seconds: float) -> None:
    """Whatever a look costs, the share of the time that goes into looks stays below its bound."""
    looks = watched(Kernel(PLENTY, seconds), 2000)
    assert len(looks) >= 2
    assert seconds * (len(looks) - 1) <= MOST_FRAC * looks[-1]


def test_a_look_that_hangs_holds_nobody_up() -> None:
    """The loop goes on, the last facts stay, no second look is begun, and after a while the fault is told."""

    class Stuck(InPlace):
        """Turns that never end, after the first one."""

        begun = 0

        def start(self, source: Source, now_s: float) -> None:
            """Begin a turn."""
            self.begun += 1
            if self.begun == 1:
                super().start(source, now_s)
            else:
                source.give(Future())

    rounds, watch = Stuck(), HostWatch(Kernel(PLENTY))
    for now_s in range(200):
        watch.step(rounds, float(now_s))
    status = watch.status(200.0)
    assert rounds.begun == 2
    assert status.memory_bytes == 512 * GIB
    assert status.error is not None and "no answer" in status.error
    assert status.age_s is not None and status.age_s > 150.0


def status_of(bench: Bench) -> DaemonStatus:
    """What the sidecar shows."""
    return daemon_status(bench.loop, datetime(2026, 1, 31, tzinfo=UTC), stopped=False, group="g")


def test_the_status_has_the_machine(tmp_path: Path) -> None:
    """Figures, age and cost; no limit is null; what is wrong is a finding, and notes are none."""
    bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False, host=HostWatch(Kernel(PLENTY)))
    bench.rounds(3)
    status = status_of(bench)
    assert status.host is not None
    assert (status.host.memory_bytes, status.host.room_bytes) == (512 * GIB, 300 * GIB)
    assert (status.host.pinnable_bytes, status.host.limit_bytes, status.host.numa_nodes) == (None, None, 2)
    assert (status.host.seconds, status.host.error) == (0.001, None)
    assert status.host.age_s is not None and status.host.age_s <= EVERY_S
    assert [text for text in status.findings if "this machine" in text] == [
        "this machine: device 0: its link has 4 of 16 PCIe lanes; put it into another slot"
    ]
    assert "This machine: 300 GiB of 512 GiB of memory to be had" in explain(status, ())
    assert DaemonStatus.model_validate_json(status.model_dump_json(by_alias=True)) == status


def test_the_terminal_shows_the_machine(tmp_path: Path) -> None:
    """The picture has a line with what is known of it."""
    bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False, host=HostWatch(Kernel(PLENTY)))
    bench.rounds(3)
    console = Console(width=200)
    with console.capture() as captured:
        console.print(picture(status_of(bench), 200))
    assert (
        "this machine: 300 GiB of 512 GiB of memory to be had; /dev/shm 1 GiB of 64 GiB; 2 NUMA nodes" in captured.get()
    )


def outcome(**sizes: float) -> TuneOutcome:
    """A search that found no policy, with costs of host tiers by their GiB."""
    found = tuple(HostSize(host_bytes=int(name[1:]) * GIB, cost_s=cost) for name, cost in sizes.items())
    return TuneOutcome(kind=OutcomeKind.NO_GAIN, text="it saves nothing", requests=1000, sizes=found)


SIZES = outcome(g0=200.0, g4=150.0, g8=100.0, g16=80.0, g32=50.0)


def test_advice_to_grow_fits_the_machine() -> None:
    """The size that pays most is advised where it fits, else the best of those that do."""
    free = verdict_of(SIZES, Window(()), None, 8 * GIB, 24.0 * GIB)
    assert (free.kind, free.host_bytes) == (VerdictKind.GROW_HOST, 32 * GIB)
    assert verdict_of(SIZES, Window(()), None, 8 * GIB) == free
    tight = verdict_of(SIZES, Window(()), None, 8 * GIB, 23.0 * GIB)
    assert (tight.kind, tight.host_bytes) == (VerdictKind.GROW_HOST, 16 * GIB)
    assert "room" not in tight.text


def test_advice_that_does_not_fit_says_what_to_do_first() -> None:
    """Where no larger tier fits, the saving is told with what stands in its way."""
    full = verdict_of(SIZES, Window(()), None, 8 * GIB, 512.0 * MIB)
    assert full.kind is VerdictKind.GROW_HOST
    assert full.text == (
        "Grow the host tier to 32 GiB: that saves 50.0 % of the cost, but this machine has room for 0.5 GiB more: "
        "give it memory first."
    )


def test_the_verdict_of_a_sidecar_knows_the_machine(tmp_path: Path) -> None:
    """What the kernel says reaches the advice; a tier with a disk behind it lies in /dev/shm, whose room counts too."""
    kernel = Kernel(PLENTY | {Signal.MEMORY_AVAILABLE_BYTES: 2.0 * GIB})
    bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False, host=HostWatch(kernel))
    bench.rounds(2)
    now = 160  # GiB, as the bench's user says
    sizes = {"g0": 200.0, f"g{now // 2}": 150.0, f"g{now}": 100.0, f"g{2 * now}": 50.0}
    bench.loop.memory.outcome = outcome(**sizes)
    assert "room for 2 GiB more" in status_of(bench).verdict.text
    kernel.facts = PLENTY
    bench.rounds(10)
    assert "room" not in status_of(bench).verdict.text
    bench.engine.gauges[Signal.DISK_WRITE_BYTES] = 1.0
    bench.rounds(1)
    assert "room for 63 GiB more" in status_of(bench).verdict.text


@pytest.mark.parametrize(("url", "is_seen"), [("http://127.0.0.1:18200", True), ("http://10.1.2.3:18200", False)])
def test_attach_looks_at_the_machine_where_the_engine_is_on_it(tmp_path: Path, url: str, is_seen: bool) -> None:
    """A real sidecar has the real collector; of an engine elsewhere this machine says nothing."""
    parts = build(Wanted((Target(url),), tmp_path, telemetry=("off",), events=("off",)), SETTINGS, ManualClock())
    try:
        assert (parts.host is not None) == is_seen
        if parts.host is not None:
            in_place = InPlace()
            parts.host.step(in_place, 0.0)
            parts.host.step(in_place, 1.0)
            assert parts.host.machine is not None and parts.host.machine.memory_bytes
    finally:
        parts.rounds.close()
