"""The whole diagnosis of one engine."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.advise.doctor.contradictions import contradictions
from autotune.advise.doctor.figures import Figures, figures
from autotune.advise.doctor.machine import Machine, machine_findings, machine_of
from autotune.advise.doctor.settings import host_tier_bytes, misconfigurations
from autotune.advise.doctor.window import Basis, Window
from autotune.advise.doctor.worth import Verdict, Worth, worth
from autotune.core.errors import ConfigError
from autotune.core.signals import Finding, Snapshot

# Engines inside which a plug-in decides; on others a policy becomes settings of their own.
_WITH_PLUGIN = frozenset({"vllm"})


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a page, or two, says about an engine.

    Attributes:
        target: Where it came from.
        engine: Name; empty if it was not recognised.
        version: As stated, or what its series tell.
        model: Served model.
        layers: KV layers on the same page.
        basis: Whether figures are of an interval or since the start.
        seconds: How long that is; ``None`` = unknown.
        worth: Would tuning pay.
        figures: What it rests on.
        found: Signals that the page tells.
        findings: What is missing, aliased, contradictory or misconfigured, and what else was odd.
        tunes: What tuning would mean here, in words.
        notes: What is easily misread.
        machine: The machine that it runs on; ``None`` = it was not looked at.
    """

    target: str
    engine: str
    version: str
    model: str
    layers: tuple[str, ...]
    basis: Basis
    seconds: float | None
    worth: Worth
    figures: Figures
    found: tuple[str, ...]
    findings: tuple[Finding, ...]
    tunes: str
    notes: tuple[str, ...]
    machine: Machine | None = None

    @property
    def is_tuning_possible(self) -> bool:
        """Whether there is something to gain, as far as can be told."""
        return self.worth.verdict in (Verdict.PAYS, Verdict.MAY_PAY)


def diagnose(window: Window, devices: int | None = None, host: Snapshot | None = None) -> Diagnosis:
    """Would tuning pay here, what speaks for it, and what is wrong.

    Args:
        window: What was counted.
        devices: Devices of the engine, all ranks together; ``None`` = one per rank that the page shows.
        host: What was seen of the machine that the engine runs on; ``None`` = it is another one than this.

    Raises:
        ConfigError: fewer devices than ranks.
    """
    page = window.page
    ranks = page.engine.ranks
    if devices is not None and devices < ranks:
        raise ConfigError(f"an engine of {ranks} ranks has at least as many devices", got=devices)
    seen = figures(window)
    answer = worth(window, seen, devices or ranks)
    notes = list(window.notes)
    if devices is None:
        notes.append(
            f"counted as {ranks} device{'s' if ranks > 1 else ''}, one per rank on the page; --devices says better"
        )
    known = [*(signal for signal, one in page.readings.items() if one.value is not None), *page.histograms]
    return Diagnosis(
        target=page.target,
        engine=page.engine.name,
        version=page.engine.version,
        model=page.engine.model,
        layers=page.engine.layers,
        basis=window.basis,
        seconds=window.seconds,
        worth=answer,
        figures=seen,
        found=tuple(sorted(signal.value for signal in known)),
        findings=(
            *page.findings,
            *contradictions(window),
            *misconfigurations(window, seen),
            *_of_machine(window, host),
        ),
        tunes=_tunes(page.engine.name, page.engine.layers),
        notes=tuple(notes),
        machine=None if host is None else machine_of(host),
    )


def _of_machine(window: Window, host: Snapshot | None) -> tuple[Finding, ...]:
    if host is None:
        return ()
    return (*host.findings, *machine_findings(machine_of(host), window.page, host_tier_bytes(window)))


def _tunes(engine: str, layers: tuple[str, ...]) -> str:
    if "kv-autotune" in layers:
        return "the plug-in is there: every access is known, and a policy takes effect while the engine runs"
    if engine in _WITH_PLUGIN:
        return "settings now; with the plug-in of kv-autotune every access is known and the cache itself can be tuned"
    return "settings of the engine only: it has no plug-in, so that verdicts rest on counters"
