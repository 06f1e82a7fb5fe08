"""From what the user gives to a sidecar that runs: targets, sources, files, locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autotune.core import registry
from autotune.core.clock import Clock
from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import SidecarSettings
from autotune.core.signals import Collector
from autotune.core.signals.target import Target
from autotune.core.units import MIB
from autotune.costs.hardware import load_hardware
from autotune.costs.roofline import profile
from autotune.daemon.engine_facts import GivenFacts
from autotune.daemon.host_watch import HostWatch
from autotune.daemon.learning import Learner
from autotune.daemon.live_policy import LivePolicy
from autotune.daemon.locks import Locks
from autotune.daemon.parts import Parts
from autotune.daemon.recording import RollingRecording
from autotune.daemon.sources import Round, Source
from autotune.daemon.state import StateFolder
from autotune.daemon.target_view import EVENTS, HOST, METRICS, TELEMETRY, TargetView
from autotune.daemon.transitions import Transitions
from autotune.daemon.tuner import Tuner
from autotune.geometry import load_model

OFF = "off"  # instead of an endpoint
_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Nothing was measured and nobody said what machine it is: figures of a small GPU, which any measurement replaces.
_ASSUMED = CostProfile(
    prefill_linear_s=1e-4,
    prefill_quadratic_s=0.0,
    kv_bytes_per_token=131_072,
    load_bytes_per_s=10e9,
    load_latency_s=1e-4,
    store_bytes_per_s=10e9,
    store_latency_s=1e-4,
    disk_bytes_per_s=1e9,
    disk_latency_s=1e-3,
    store_exposed_frac=0.0,
    source="assumed; nothing was measured",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for.

    Attributes:
        targets: Engines; several are replicas that share one policy.
        state: State folder.
        policy: File that the engines watch; ``None`` = nothing is published.
        telemetry: Where the plug-in's records come from, or ``off``, one per target; empty = where each engine's page
            says.
        events: Endpoints of KV events, or ``off``, one per target; empty = each engine is asked.
        model: Model by name or config.json, for assumed costs; ``None`` = not said.
        hardware: Hardware by name or file, likewise.
        given: Sizes that the user said.
    """

    targets: tuple[Target, ...]
    state: Path
    policy: Path | None = None
    telemetry: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    model: str | None = None
    hardware: str | None = None
    given: GivenFacts = GivenFacts()  # noqa: RUF009 frozen

    def __post_init__(self) -> None:
        """Refuse what cannot be told apart.

        Raises:
            ConfigError: there is no target, one is named twice, or the sources do not match the targets.
        """
        names = [identity_of(target.url) for target in self.targets]
        if not names or len(set(names)) != len(names):
            raise ConfigError(
                "a sidecar needs targets, each once", got=", ".join(t.name for t in self.targets) or "none"
            )
        for what, given in (("--telemetry", self.telemetry), ("--events", self.events)):
            if given and len(given) != len(self.targets):
                raise ConfigError(
                    f"{what} is given once per target, in their order", got=f"{len(given)} for {len(self.targets)}"
                )


def identity_of(url: str) -> str:
    """One name for all ways to write the same address of this machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").casefold()
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return f"{'127.0.0.1' if host in _LOOPBACK else host}:{port}"


def take_locks(locks: Locks, wanted: Wanted) -> None:
    """Refuse a second sidecar on the same engine, the same policy file or the same state folder.

    Raises:
        ConfigError: another process has one of them.
    """
    for target in wanted.targets:
        locks.take(f"target {identity_of(target.url)}", target.name)
    if wanted.policy is not None:
        locks.take(f"policy {wanted.policy.resolve()}", f"the policy file {wanted.policy}")
    locks.take(f"state {wanted.state.resolve()}", f"the state folder {wanted.state}")


def take_engine_locks(locks: Locks, targets: Sequence[TargetView]) -> None:
    """Refuse a second sidecar on the same process of an engine, under whatever address it is reached.

    Raises:
        ConfigError: another process has it.
    """
    for target in targets:
        if target.start_s is not None:
            locks.take(f"engine {target.engine} {target.model} {target.start_s:.2f}", target.url)


def build(wanted: Wanted, settings: SidecarSettings, clock: Clock) -> Parts:
    """The parts of a sidecar.

    Raises:
        AutotuneError: a file, a source, the model or the hardware cannot be used.
    """
    state = StateFolder(wanted.state)
    table = assumed_costs(wanted.model, wanted.hardware)
    live = None if wanted.policy is None else LivePolicy(wanted.policy)
    return Parts(
        clock=clock,
        targets=tuple(
            TargetView(target.name, [Source(each) for each in _collectors(wanted, number, settings, clock)])
            for number, target in enumerate(wanted.targets)
        ),
        learners=tuple(
            Learner(table, clock, RollingRecording(folder, clock, settings.recording))
            for folder in _recording_folders(state, len(wanted.targets))
        ),
        rounds=Round(),
        state=state,
        transitions=Transitions(state, live, clock, settings.guard.lease_s),
        tuner=Tuner(state.work, clock),
        given=wanted.given,
        host=_host(wanted, clock),
    )


def assumed_costs(model: str | None, hardware: str | None) -> CostProfile:
    """Costs that hold until something was measured.

    Raises:
        ConfigError: the model or the hardware is not known, or only one of them is given.
    """
    if model is None and hardware is None:
        return _ASSUMED
    if model is None or hardware is None:
        raise ConfigError(
            "costs are assumed from a model and a machine together",
            got="only one of them",
            remedy="give both --model and --hardware, or neither",
        )
    return profile(load_model(model), load_hardware(hardware))


def _collectors(wanted: Wanted, number: int, settings: SidecarSettings, clock: Clock) -> list[Collector[Any]]:
    """Sources of one target, each found by its entry point."""
    limits = (settings.collect.timeout_s, settings.collect.max_page_mib * MIB)
    metrics = registry.load(registry.COLLECTORS, METRICS).bounded(wanted.targets[number], clock, *limits)
    further = (_telemetry(wanted, number, clock), _events(wanted, number, settings, clock))
    return [metrics, *(collector for collector in further if collector is not None)]


def _telemetry(wanted: Wanted, number: int, clock: Clock) -> Collector[Any] | None:
    """Records from where the user says, else from where the engine's page says; ``off`` = none."""
    telemetry = registry.load(registry.COLLECTORS, TELEMETRY)
    if not wanted.telemetry:
        announced: Collector[Any] = telemetry.announced(wanted.targets[number], clock)
        return announced
    if wanted.telemetry[number] == OFF:
        return None
    given: Collector[Any] = telemetry(wanted.telemetry[number], clock=clock)
    return given


def _events(wanted: Wanted, number: int, settings: SidecarSettings, clock: Clock) -> Collector[Any] | None:
    """KV events from where the user says, else from where the engine says; ``off`` = none."""
    events = registry.load(registry.COLLECTORS, EVENTS)
    if not wanted.events:
        found: Collector[Any] | None = events.discovered(wanted.targets[number], settings.collect.timeout_s, clock)
        return found
    endpoint, _, replay = wanted.events[number].partition(",")
    if endpoint == OFF:
        return None
    given: Collector[Any] = events.at(endpoint, replay or None, clock)
    return given


def _host(wanted: Wanted, clock: Clock) -> HostWatch | None:
    """Facts of this machine, where all engines are on it."""
    if not all(target.is_local for target in wanted.targets):
        return None
    return HostWatch(registry.load(registry.COLLECTORS, HOST)(clock))


def _recording_folders(state: StateFolder, n_targets: int) -> Sequence[Path]:
    if n_targets == 1:
        return (state.recording,)
    return tuple(state.recording / f"replica-{number}" for number in range(n_targets))
