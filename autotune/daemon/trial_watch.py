"""Watching a policy on trial: every round either nothing, or the reason to end the trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.core.sidecar_settings import GuardSettings
from autotune.core.signals import Signal
from autotune.daemon.bounds import Bounds
from autotune.daemon.guard import Concern, SecondsPerToken, Trip, gain_bounds, judged, regressions
from autotune.daemon.target_view import TELEMETRY, TargetView
from autotune.daemon.windows import Interval, Window

_SETTLE_FRAC = 0.2  # of the time box: the cache still holds what the policy before chose
_GRACE_ROUNDS = 6  # in which an engine that works must have taken the policy up
_FAULTS = ((Signal.PLUGIN_FALLBACKS, "the plug-in met a fault and went on with stock LRU"),)
_REFUSALS = (
    (Signal.PLUGIN_RELOAD_ERRORS, "the engine refused the policy file"),
    (Signal.PLUGIN_LEASES_EXPIRED, "the lease ended in the engine"),
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trial ends.

    Attributes:
        keep: Whether the policy is kept.
        text: Why.
        trips: What the guard found; empty where nothing is wrong but nothing is gained either.
    """

    keep: bool
    text: str
    trips: tuple[Trip, ...] = ()


@dataclass(slots=True)
class TrialWatch:
    """One trial.

    Attributes:
        policy_hash: First 12 digits of what should be in force.
        began_s: When it began, on the monotonic clock.
        before: The window before it.
        promised: Bounds of the gain that was promised; ``None`` = none.
        settings: Of the guard.
        interval_s: Seconds between two rounds.
        stale_after_s: Seconds without a record after which the telemetry of an engine that works counts as broken.
        rounds: Intervals since then.
        gain: Share of the cost that it saves, as far as is known.
    """

    policy_hash: str
    began_s: float
    before: Window
    promised: tuple[float, float] | None
    settings: GuardSettings
    interval_s: float
    stale_after_s: float
    rounds: list[Interval] = field(default_factory=list)
    gain: Bounds | None = None
    _in_force: set[str] = field(default_factory=set)
    _worked_rounds: int = 0

    def check(
        self,
        targets: Sequence[TargetView],
        interval: Interval | None,
        costs: SecondsPerToken | None,
        now_s: float,
    ) -> Ending | None:
        """One round of the trial.

        Args:
            targets: Every engine of the group.
            interval: What they did since the round before; ``None`` = not known.
            costs: Turns tokens into seconds.
            now_s: The present on the monotonic clock.

        Returns:
            How the trial ends; ``None`` = it goes on.
        """
        trips = tuple(self._faults(targets, now_s))
        if trips:
            return _taken_back(trips)
        if interval is not None and now_s - self.began_s > _SETTLE_FRAC * self.settings.canary_s:
            self.rounds.append(interval)
            looks = max(1, round(self.settings.canary_s / self.interval_s))
            trips = regressions(self.before, Window(tuple(self.rounds)), costs, self.settings, looks)
            if trips:
                return _taken_back(trips)
        if now_s - self.began_s < self.settings.canary_s:
            return None
        return self._judge(costs)

    def _faults(self, targets: Sequence[TargetView], now_s: float) -> Iterator[Trip]:
        for target in targets:
            if not target.alive:
                yield Trip(Concern.DEAD, f"{target.url} does not answer")
            elif target.rates is not None and target.rates.reset:
                yield Trip(Concern.DEAD, f"{target.url} began anew: {target.rates.because}")
            elif stale := self._stale(target, now_s):
                yield Trip(Concern.STALE, f"{target.url}: the figures of {stale} are old")
            else:
                yield from _counted(target, (*_FAULTS, *_REFUSALS))
        yield from self._not_in_force(targets)

    def _stale(self, target: TargetView, now_s: float) -> str | None:
        """Name of a source that the trial rests on and that went silent."""
        for source in target.sources:
            health = source.health(now_s)
            if not health.ok and health.age_s is not None:
                return source.name
        works = target.rates is not None and bool(target.rates.delta(Signal.REQUESTS_FINISHED))
        silent_s = target.silent_s
        return TELEMETRY if works and silent_s is not None and silent_s > self.stale_after_s else None

    def _not_in_force(self, targets: Sequence[TargetView]) -> Iterator[Trip]:
        """An engine that works must take the policy up, and keep it."""
        worked = [target for target in targets if target.rates and target.rates.delta(Signal.GENERATION_TOKENS)]
        self._worked_rounds += 1 if worked else 0
        for target in targets:
            if target.policy_hash == self.policy_hash:
                self._in_force.add(target.url)
            elif target.url in self._in_force:
                said = target.policy_hash or "the engine's own rule"
                yield Trip(Concern.NOT_IN_FORCE, f"{target.url} left the policy for {said}")
            elif target.policy_hash is not None and target in worked and self._worked_rounds > _GRACE_ROUNDS:
                yield Trip(Concern.NOT_IN_FORCE, f"{target.url} still has the policy {target.policy_hash} in force")

    def _judge(self, costs: SecondsPerToken | None) -> Ending:
        trial = Window(tuple(self.rounds))
        self.gain = gain_bounds(self.before, trial, costs, self.settings.confidence) if costs is not None else None
        objections = list(judged(self.gain, self.promised))
        if objections or self.gain is None:
            return Ending(False, "not kept: " + "; ".join(objections))
        saved = f"{100 * self.gain.value:.1f} % ({100 * self.gain.low:.1f} to {100 * self.gain.high:.1f})"
        return Ending(True, f"it saves {saved} of the seconds per prompt token, and nothing got worse")


def integrity_faults(targets: Sequence[TargetView]) -> tuple[Trip, ...]:
    """Faults of the plug-in in the last round, whatever policy is in force."""
    return tuple(trip for target in targets for trip in _counted(target, _FAULTS))


def _counted(target: TargetView, counters: Sequence[tuple[Signal, str]]) -> Iterator[Trip]:
    if target.rates is None:
        return
    for signal, text in counters:
        if target.rates.delta(signal):
            yield Trip(Concern.INTEGRITY, f"{target.url}: {text}")


def _taken_back(trips: tuple[Trip, ...]) -> Ending:
    return Ending(False, "; ".join(trip.text for trip in trips), trips)
