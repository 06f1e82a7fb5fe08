"""The steps around a trial: begin it, watch it, keep it or take it back."""

from __future__ import annotations

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument
from autotune.daemon.pace import TimePromise, Yardstick, pace
from autotune.daemon.parts import MIN_BEFORE, TRYING, Memory, Parts
from autotune.daemon.schedule import Schedule
from autotune.daemon.status import Mode
from autotune.daemon.transitions import Transitions
from autotune.daemon.trial import identity
from autotune.daemon.trial_watch import Ending, TrialWatch, integrity_faults
from autotune.daemon.windows import Window

_SHORT_HASH = 12
_MIN_FINISHED = 20.0  # requests of the window before, without which a comparison says nothing
_MAX_REJECTED = 64


class TrialStep:
    """Trials of one sidecar.

    Args:
        parts: What it is made of.
        memory: What it remembers.
        schedule: Rests after changes.

    Attributes:
        watch: The trial that runs; ``None`` = none.
    """

    def __init__(self, parts: Parts, memory: Memory, schedule: Schedule) -> None:
        self._parts, self._memory, self._schedule = parts, memory, schedule
        self.watch: TrialWatch | None = None

    def guard(self) -> None:
        """Renew what is on trial, or end it; let go of what somebody else changed.

        Raises:
            AutotuneError: a lease or a kept policy cannot be written; the engine then ends the trial by itself.
        """
        policies, now_s = self._parts.transitions, self._parts.clock.monotonic_s()
        self._memory.find("rollback", policies.settle())
        policies.look()
        if policies.hands_off is not None:
            self.watch = self._memory.candidate = None
        elif self.watch is None:
            self._guard_kept()
        else:
            costs = self._parts.seconds_per_token
            ending = self.watch.check(self._parts.targets, self._memory.interval, costs, now_s)
            if ending is None:
                policies.renew()
            else:
                self.end(ending)

    def publish(self) -> None:
        """Begin the trial of a candidate where the mode lets it and there is something to compare it with.

        Raises:
            AutotuneError: it cannot be written; what was in force stays.
        """
        waiting, policies = self._memory.candidate, self._parts.transitions
        if waiting is None or self.watch is not None or self._memory.mode not in TRYING:
            return
        if policies.hands_off is not None or policies.live_path is None or policies.owed:
            return
        if not comparable(self._memory.recent) or not all(target.alive for target in self._parts.targets):
            return
        document, reason = waiting
        self._memory.candidate = None
        policies.begin(document, reason)
        self.watch = self._watch(document)
        self._memory.ttft_promise = self._ttft_promise(document)
        self._changed()

    def end(self, ending: Ending, who: str = "sidecar") -> None:
        """End the trial that runs.

        Raises:
            AutotuneError: a kept policy cannot be written; it stays on trial.
        """
        policies, trial = self._parts.transitions, self._parts.transitions.trial
        if ending.keep:
            policies.keep(ending.text)
        else:
            policies.roll_back(ending.text, who)
            self._count_rollback(ending.text if ending.trips else None)
            if trial is not None:
                self._memory.note(rejected=(*self._memory.checkpoint.rejected, identity(trial))[-_MAX_REJECTED:])
        self.watch = None
        self._schedule.judged(ending.keep)
        self._changed()
        if self._memory.mode is Mode.CANARY:
            self._memory.mode = Mode.RECOMMEND
            policies.change_mode(Mode.RECOMMEND, "the one trial of mode canary is over", "sidecar")

    def roll_back(self, reason: str, who: str) -> None:
        """Put the policy before in force, at somebody's wish.

        Raises:
            AutotuneError: there is none, or it cannot be written.
        """
        if self.watch is not None:
            self.end(Ending(False, reason), who)
            return
        self._parts.transitions.undo(reason, who)
        self._count_rollback(None)
        self._changed()

    def _watch(self, document: PolicyDocument) -> TrialWatch:
        settings, outcome = self._memory.settings, self._memory.outcome
        is_found = outcome is not None and self._memory.predicted_hash == identity(document)
        gain = outcome.gain if outcome is not None and is_found else None
        return TrialWatch(
            policy_hash=identity(document)[:_SHORT_HASH],
            began_s=self._parts.clock.monotonic_s(),
            before=self._memory.recent,
            promised=None if gain is None else (gain.low, gain.high),
            settings=settings.guard,
            interval_s=settings.collect.interval_s,
            stale_after_s=settings.collect.stale_after_s,
        )

    def _ttft_promise(self, document: PolicyDocument) -> TimePromise | None:
        """Mean time to the first token under a policy: what it was, less what the mean request is spared.

        Both are seconds of the machine as it is now, so its present speed goes with them.
        """
        memory, outcome = self._memory, self._memory.outcome
        saved = outcome.saved_s_per_request if outcome is not None else None
        if saved is None or memory.predicted_hash != identity(document):
            return None
        confidence = memory.settings.guard.confidence
        was = memory.recent.ttft_mean(confidence)
        if was is None:
            return None
        yardstick = Yardstick.of(self._parts.best_learner.estimates())
        return TimePromise(
            value_s=was.value - saved.value,
            low_s=was.low - saved.high,
            high_s=was.high - saved.low,
            yardstick=yardstick,
            pace=pace(memory.recent, yardstick, confidence),
        )

    def _guard_kept(self) -> None:
        """Outside a trial only a broken plug-in takes a policy back: chance and load do not."""
        policies = self._parts.transitions
        trips = integrity_faults(self._parts.targets)
        if trips and policies.publishes:
            reason = "; ".join(trip.text for trip in trips)
            policies.fall_back(reason)
            self._count_rollback(reason)
            self._changed()

    def _count_rollback(self, trip: str | None) -> None:
        old = self._memory.checkpoint
        self._memory.note(
            trips=old.trips + (trip is not None), rollbacks=old.rollbacks + 1, last_reason=trip or old.last_reason
        )

    def _changed(self) -> None:
        """A policy was put in force or taken back: rest from now on, and measure anew."""
        self._schedule.changed(self._parts.clock.monotonic_s())
        self._memory.window.clear()
        self._memory.note(last_change_at=self._parts.clock.utc_now())


def comparable(before: Window) -> bool:
    """Whether a window holds enough for a trial to be compared with it."""
    return len(before.intervals) >= MIN_BEFORE and (before.total("finished") or 0.0) >= _MIN_FINISHED


def require_policy_path(policies: Transitions, mode: Mode) -> None:
    """Refuse a mode that publishes where there is nothing to publish to.

    Raises:
        ConfigError: there is no policy file.
    """
    if mode in TRYING and policies.live_path is None:
        raise ConfigError(
            f"mode {mode} publishes, so it needs the policy file that the engine watches",
            got="none",
            remedy="attach with --policy FILE, the same that the engine's policy_file names",
        )
