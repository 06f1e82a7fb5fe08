"""A diagnosis in words and as a table, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autotune.advise.doctor import Basis, Diagnosis, Machine, Verdict, Worth
from autotune.advise.doctor.machine import gib
from autotune.core.signals import FindingKind

if TYPE_CHECKING:
    from rich.table import Table

# What a reader has to act on first.
_ORDER = (
    FindingKind.MISCONFIGURED,
    FindingKind.CONTRADICTORY,
    FindingKind.AMBIGUOUS,
    FindingKind.MALFORMED,
    FindingKind.MISSING,
    FindingKind.ALIASED,
    FindingKind.NOTE,
)
_ANSWERS = {
    Verdict.PAYS: "Yes",
    Verdict.MAY_PAY: "It may",
    Verdict.DOES_NOT_PAY: "No",
    Verdict.CANNOT_TELL: "It cannot be told from this",
}


def diagnosis_words(diagnosis: Diagnosis) -> Iterator[str]:
    """The answer, what it rests on and what would narrow it, a line each."""
    yield _who(diagnosis)
    yield f"Would tuning pay here? {_answer(diagnosis.worth)}"
    yield from (f"  because {reason}." for reason in diagnosis.worth.because)
    verb = "missing" if diagnosis.worth.verdict is Verdict.CANNOT_TELL else "to say more"
    yield from (f"  {verb}: {what}." for what in diagnosis.worth.missing)
    yield f"What tuning means here: {diagnosis.tunes}."
    if figures := "; ".join(_figures(diagnosis)):
        yield f"Seen: {figures}."
    if diagnosis.machine is not None and (parts := "; ".join(machine_words(diagnosis.machine))):
        yield f"This machine: {parts}."
    yield from (f"Note: {note}." for note in diagnosis.notes)


def machine_words(machine: Machine) -> Iterator[str]:
    """What is known of a machine, part by part."""
    if machine.memory_bytes is not None:
        left = "" if machine.room_bytes is None else f", {gib(machine.room_bytes)} of it to be had"
        yield f"{gib(machine.memory_bytes)} of memory{left}"
    if machine.limit_bytes is not None:
        yield f"a control group of {gib(machine.limit_bytes)}"
    if machine.shm_bytes is not None:
        yield f"/dev/shm of {gib(machine.shm_bytes)}"
    if machine.pinnable_bytes is not None:
        yield f"a process may pin {gib(machine.pinnable_bytes)}"
    if machine.numa_nodes is not None:
        yield f"{machine.numa_nodes:.0f} NUMA node{'s' if machine.numa_nodes > 1.0 else ''}"
    if machine.devices is not None:
        yield f"{machine.devices:.0f} NVIDIA device{'s' if machine.devices > 1.0 else ''}"
    if machine.link_bytes_per_s is not None:
        yield f"slowest link {machine.link_bytes_per_s / 1e9:.1f} GB/s"


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Findings, those to act on first."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("finding", "about", "evidence", "remedy"):
        table.add_column(heading, overflow="fold")
    for finding in sorted(diagnosis.findings, key=lambda one: _ORDER.index(one.kind)):
        if finding.kind is not FindingKind.ALIASED:
            table.add_row(finding.kind.value, finding.subject, finding.evidence, finding.remedy or "-")
    aliased = [finding.subject for finding in diagnosis.findings if finding.kind is FindingKind.ALIASED]
    if aliased:
        words = f"under several names: {', '.join(dict.fromkeys(aliased))}; each counts once"
        table.add_row(FindingKind.ALIASED.value, f"{len(aliased)} series", words, "-")
    return table


def _who(diagnosis: Diagnosis) -> str:
    parts = [diagnosis.engine or "an engine that is not known"]
    if diagnosis.version:
        parts.append(diagnosis.version)
    if diagnosis.layers:
        parts.append("with " + ", ".join(diagnosis.layers))
    if diagnosis.model:
        parts.append(f"serving {diagnosis.model}")
    since = "in the last" if diagnosis.basis is Basis.INTERVAL else "since its start,"
    span = "since its start" if diagnosis.seconds is None else f"{since} {diagnosis.seconds:,.0f} s"
    return f"{diagnosis.target}: {' '.join(parts)}, {span}."


def _answer(worth: Worth) -> str:
    answer = _ANSWERS[worth.verdict]
    low, high = worth.low_device_hours_per_day, worth.high_device_hours_per_day
    if low is None or high is None:
        return f"{answer}."
    plural = "s" if worth.devices > 1 else ""
    return (
        f"{answer}: between {low:.2f} and {high:.2f} device-hours per day ({worth.devices} device{plural}) go into "
        "computing again what had been there."
    )


def _figures(diagnosis: Diagnosis) -> Iterator[str]:
    seen = diagnosis.figures
    if seen.requests is not None:
        yield f"{seen.requests:,.0f} requests"
    if seen.prompt_tokens is not None:
        yield f"{seen.prompt_tokens:,.0f} prompt tokens"
    if seen.computed_tokens is not None:
        yield f"{seen.computed_tokens:,.0f} of them computed"
    if seen.device_hit_frac is not None:
        yield f"hit rate of the device {100.0 * seen.device_hit_frac:.1f} %"
    if seen.behind_hit_frac is not None:
        yield f"behind it {100.0 * seen.behind_hit_frac:.1f} %"
    if seen.prefill_s_per_token_high is not None:
        yield f"at most {1e3 * seen.prefill_s_per_token_high:.3f} ms of prefill per token"
