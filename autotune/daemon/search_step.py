"""The steps around a search: when to begin, what to hand over, what to make of what it found."""

from __future__ import annotations

from pathlib import Path

from autotune.core.policy import Costs, load
from autotune.daemon.drift import DriftWatch
from autotune.daemon.engine_facts import EngineProfile
from autotune.daemon.jobs import OutcomeKind, Share, TuneJob, TuneOutcome
from autotune.daemon.parts import TRYING, Memory, Parts
from autotune.daemon.schedule import Schedule
from autotune.daemon.status import Grade, Mode
from autotune.daemon.trial import identity
from autotune.export import diff
from autotune.export.diff import summary

_NEWEST_FRAC = 0.2  # of the recorded time: judges, and is not tuned on
_MIB = 2**20


class SearchStep:
    """Searches of one sidecar.

    Args:
        parts: What it is made of.
        memory: What it remembers.
        schedule: When to search.
        drift: Whether the load changed.
    """

    def __init__(self, parts: Parts, memory: Memory, schedule: Schedule, drift: DriftWatch) -> None:
        self._parts, self._memory, self._schedule, self._drift = parts, memory, schedule, drift
        self._load_began = 0  # requests recorded before the present load
        self._change_began: int | None = None  # likewise, of a change that no search has followed yet

    def begin(self) -> None:
        """Start a search where one is due.

        Raises:
            ConfigError: it cannot be started.
        """
        memory, parts = self._memory, self._parts
        if parts.tuner.running or memory.mode is Mode.FREEZE or parts.transitions.trial is not None:
            return
        drift = self._drift.reason(memory.hit_frac, self.predicted_hit)
        requests = self._requests_of_this_load(drift is not None)
        reason = self._schedule.reason(parts.clock.monotonic_s(), requests, drift)
        if reason is None:
            return
        profile = parts.engine_profile()
        missing = self._missing(profile)
        memory.find("evidence", missing)
        if missing is not None or isinstance(profile, str):
            return
        for learner in parts.learners:
            if learner.recorder is not None:
                learner.recorder.flush()
        parts.tuner.start(self._job(profile, requests))
        memory.tune_reason = reason
        if drift is not None:
            memory.note(rejected=())  # under another load they may be right
            self._load_began, self._change_began = parts.requests - requests, None
        self._drift.settle()

    def validate(self) -> None:
        """Take over what a search found, if it ended, and what an operator wants tried.

        Raises:
            AutotuneError: a policy cannot be read, or the recommendation cannot be written.
        """
        outcome = self._parts.tuner.poll()
        if outcome is not None:
            self._take(outcome)
        path = self._parts.state.candidate_path
        if self._memory.mode in TRYING and self._memory.candidate is None and path.exists():
            document = load(path)
            path.rename(path.with_suffix(".taken.yaml"))
            self._memory.candidate = (document, "an operator put it into the state folder")

    def _requests_of_this_load(self, changed: bool) -> int:
        """Recorded requests that a search may use: those before a change of the load tell of another one."""
        recorded = self._parts.requests
        if not changed:
            self._change_began = None
        elif self._change_began is None:
            self._change_began = recorded
        began = self._load_began if self._change_began is None else self._change_began
        if began > recorded:  # another epoch, with nothing of the old load in it
            began = self._load_began = 0
            self._change_began = 0 if changed else None
        return recorded - began

    @property
    def predicted_hit(self) -> Share | None:
        """Share of prompt tokens that some tier should have; ``None`` = nothing is predicted for what is in force."""
        outcome = self._memory.outcome
        if outcome is None or not self._memory.predictions_hold(self._parts.transitions.in_force):
            return None
        device, host = outcome.device_hit_frac, outcome.host_hit_frac
        if device is None or host is None:
            return None
        return Share(value=device.value + host.value, low=device.low + host.low, high=device.high + host.high)

    def _take(self, outcome: TuneOutcome) -> None:
        memory, policies, clock = self._memory, self._parts.transitions, self._parts.clock
        memory.outcome, memory.ttft_promise = outcome, None
        self._schedule.searched(clock.monotonic_s())
        memory.note(last_tuned_at=clock.utc_now(), last_tune_seconds=outcome.seconds)
        memory.find("search", outcome.text if outcome.kind is OutcomeKind.FAILED else None)
        memory.predicted_hash = None if policies.in_force is None else identity(policies.in_force)
        if outcome.kind is OutcomeKind.POLICY:
            self._recommend(outcome)

    def _recommend(self, outcome: TuneOutcome) -> None:
        memory, policies, state = self._memory, self._parts.transitions, self._parts.state
        document = load(state.work / Path(outcome.policy or "policy.yaml").name)
        memory.predicted_hash = identity(document)
        if memory.predicted_hash in memory.checkpoint.rejected or memory.mode in {Mode.OBSERVE, Mode.FREEZE}:
            return
        policies.recommend(document, outcome.text)
        present = policies.confirmed
        state.write_note(outcome.text, [] if present is None else summary(diff(present, document)))
        memory.recommendation = document
        if memory.mode in TRYING:
            memory.candidate = (document, outcome.text)

    def _missing(self, profile: EngineProfile | str) -> str | None:
        if isinstance(profile, str):
            return profile
        if not any(target.grade is Grade.TELEMETRY for target in self._parts.targets):
            return "without the plug-in's telemetry hits on the device are not seen: verdicts only, nothing is tuned"
        return None if self._parts.best_learner.samples else "no prefill was measured yet"

    def _job(self, profile: EngineProfile, requests: int) -> TuneJob:
        settings, state, learner = self._memory.settings.retune, self._parts.state, self._parts.best_learner
        costs = Costs.of(learner.profile()).model_copy(update={"kv_bytes_per_token": profile.kv_bytes_per_token})
        return TuneJob(
            trace=learner.recorder.source if learner.recorder is not None else "",
            out=str(state.work),
            model=profile.model,
            kv_dtype=profile.kv_dtype,
            engines=(profile.engine,) if profile.engine else (),
            costs=costs,
            budgets=profile.budgets,
            semantics=profile.semantics,
            confirmed=str(state.confirmed_path) if self._parts.transitions.confirmed is not None else None,
            newest_requests=requests,
            learned=settings.learned,
            online=self._memory.online,
            unfit=profile.unfit,
            trials=settings.trials,
            newest_frac=_NEWEST_FRAC,
            confidence=self._memory.settings.guard.confidence,
            min_requests=settings.min_requests,
            min_gain_frac=settings.min_gain_frac,
            timeout_s=settings.timeout_s,
            cpu_s=settings.timeout_s * settings.cpu_cores,
            cores=max(1, round(settings.cpu_cores)),
            max_bytes=settings.max_mib * _MIB,
        )
