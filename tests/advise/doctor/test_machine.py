"""What of a machine stands in an engine's way, and what a machine has room for."""

from __future__ import annotations

import pytest

from autotune.advise.doctor import Machine, diagnose, machine_of, window_since_start
from autotune.advise.doctor.machine import machine_findings, uses_shm
from autotune.core.signals import EngineInfo, Finding, FindingKind, Reading, Signal, Snapshot
from autotune.core.units import GIB, MIB
from autotune.report.doctor import diagnosis_words, machine_words


def page(ranks: int = 1, **gauges: float) -> Snapshot:
    """What an engine says."""
    readings = {Signal(name): Reading(value, 0.0, name) for name, value in gauges.items()}
    return Snapshot("engine", 0.0, EngineInfo("vllm", "0.32.0", ranks=ranks), readings)


def wrong(machine: Machine, seen: Snapshot, tier_bytes: float | None = None) -> list[str]:
    """What findings that have to be acted on are about."""
    found = machine_findings(machine, seen, tier_bytes)
    return [each.subject for each in found if each.kind is FindingKind.MISCONFIGURED]


@pytest.mark.parametrize(
    ("machine", "room_gib"),
    [
        (Machine(), None),
        (Machine(available_bytes=5.0 * GIB), 5.0),
        (Machine(available_bytes=5.0 * GIB, limit_bytes=4.0 * GIB, used_bytes=1.0 * GIB), 3.0),
        (Machine(available_bytes=2.0 * GIB, limit_bytes=4.0 * GIB, used_bytes=1.0 * GIB), 2.0),
        (Machine(limit_bytes=4.0 * GIB, used_bytes=5.0 * GIB), 0.0),
        (Machine(limit_bytes=4.0 * GIB), None),
    ],
)
def test_room_is_the_least_of_what_is_left(machine: Machine, room_gib: float | None) -> None:
    """The machine's own memory and the control group's limit both count, and what is not known counts for nothing."""
    assert machine.room_bytes == (None if room_gib is None else room_gib * GIB)


def test_no_limit_is_unknown_and_never_infinite() -> None:
    """What a process may pin without a limit is no number, so that JSON can hold it."""
    readings = {
        Signal.MEMLOCK_LIMIT_BYTES: Reading(float("inf"), 0.0, "limit"),
        Signal.NUMA_NODES: Reading(2.0, 0.0, "sys"),
    }
    assert machine_of(Snapshot("host", 0.0, readings=readings)) == Machine(numa_nodes=2.0)


def test_memory_that_is_used_up_is_told() -> None:
    """Below a twentieth of the limit, or of the machine where there is none."""
    assert wrong(Machine(memory_bytes=100.0 * GIB, available_bytes=4.0 * GIB), page()) == ["memory"]
    assert wrong(Machine(memory_bytes=100.0 * GIB, available_bytes=6.0 * GIB), page()) == []
    group = Machine(memory_bytes=900.0 * GIB, available_bytes=500.0 * GIB, limit_bytes=8.0 * GIB, used_bytes=7.9 * GIB)
    assert wrong(group, page()) == ["memory"]


def test_a_host_tier_larger_than_the_memory_is_told() -> None:
    """Before it is full the engine is killed; the control group's limit counts like the machine."""
    machine = Machine(memory_bytes=64.0 * GIB, limit_bytes=32.0 * GIB)
    assert wrong(machine, page(), 40.0 * GIB) == ["host tier"]
    assert wrong(machine, page(), 30.0 * GIB) == []


def test_a_small_shm_is_told_where_it_is_used() -> None:
    """Ranks and tiers with a disk behind them share it; an engine that does neither does not care."""
    small = Machine(shm_bytes=64.0 * MIB)
    assert wrong(small, page()) == []
    assert wrong(small, page(ranks=2)) == ["/dev/shm"]
    tiered = page(disk_write_bytes=1.0)
    assert uses_shm(tiered) and not uses_shm(page())
    assert wrong(small, tiered) == ["/dev/shm"]
    assert wrong(Machine(shm_bytes=8.0 * GIB), tiered, 16.0 * GIB) == ["/dev/shm"]
    assert wrong(Machine(shm_bytes=32.0 * GIB), tiered, 16.0 * GIB) == []


def test_a_diagnosis_has_the_machine_where_it_was_looked_at() -> None:
    """Its findings stand among the others, and one line says what it has; without a look there is neither."""
    memlock = Finding(FindingKind.NOTE, "memlock", "a process may pin 64 KiB")
    readings = {
        Signal.MEMORY_TOTAL_BYTES: Reading(100.0 * GIB, 0.0, "meminfo"),
        Signal.MEMORY_AVAILABLE_BYTES: Reading(1.0 * GIB, 0.0, "meminfo"),
        Signal.NUMA_NODES: Reading(2.0, 0.0, "sys"),
    }
    host = Snapshot("host", 0.0, readings=readings, findings=(memlock,))
    window = window_since_start(page(), 100.0)
    seen = diagnose(window, None, host)
    assert {"memory", "memlock", "NUMA"} <= {finding.subject for finding in seen.findings}
    assert "This machine: 100 GiB of memory, 1 GiB of it to be had; 2 NUMA nodes." in list(diagnosis_words(seen))
    blind = diagnose(window)
    assert blind.machine is None
    assert not any("machine" in line for line in diagnosis_words(blind))


def test_all_that_is_known_of_a_machine_is_said() -> None:
    """Every figure has its words."""
    machine = Machine(8.0 * GIB, 4.0 * GIB, 6.0 * GIB, 1.0 * GIB, 2.0 * GIB, 0.0, 1.0 * GIB, 1.0, 4.0, 32e9)
    assert list(machine_words(machine)) == [
        "8 GiB of memory, 4 GiB of it to be had",
        "a control group of 6 GiB",
        "/dev/shm of 2 GiB",
        "a process may pin 1 GiB",
        "1 NUMA node",
        "4 NVIDIA devices",
        "slowest link 32.0 GB/s",
    ]
