"""The loop: collect, update, guard, validate, maybe tune, publish, checkpoint.

Every step can be called alone, with a clock that only a test moves. A round never raises for what an engine, a disk or
a search does: it is told as a finding, and the loop goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from autotune.core.errors import AutotuneError
from autotune.core.settings import Settings
from autotune.core.signals import Collected, Signal
from autotune.daemon.drift import DriftWatch
from autotune.daemon.engine_facts import told_by
from autotune.daemon.learning import prompts_of
from autotune.daemon.pace import with_prefills
from autotune.daemon.parts import TRYING, Memory, Parts, window_for
from autotune.daemon.schedule import Schedule
from autotune.daemon.search_step import SearchStep
from autotune.daemon.shadow_step import ShadowStep
from autotune.daemon.state import Checkpoint
from autotune.daemon.status import Mode
from autotune.daemon.trial_step import TrialStep, require_policy_path
from autotune.daemon.trial_watch import Ending
from autotune.daemon.windows import Interval

_PATIENCE = 1.5  # a source's own limit comes before that of the round

Answers = Sequence[Sequence[Collected[Any] | None]]  # per target, per source


class Loop:
    """The sidecar of one group of engines, without threads and without HTTP.

    Args:
        parts: What it is made of.
        settings: All settings.
        mode: How much it may do; if not given, as the settings say, or frozen if it was.

    Raises:
        AutotuneError: the state folder or the live policy cannot be used, or the mode needs what is not there.
    """

    def __init__(self, parts: Parts, settings: Settings, mode: Mode | None = None) -> None:
        self.parts, sidecar = parts, settings.sidecar
        earlier = parts.state.load_checkpoint()
        was_frozen = earlier is not None and earlier.mode is Mode.FREEZE
        chosen = mode or (Mode.FREEZE if was_frozen else Mode(sidecar.mode))
        require_policy_path(parts.transitions, chosen)
        checkpoint = earlier or Checkpoint(mode=chosen)
        self.memory = Memory(sidecar, settings.online, chosen, checkpoint, window_for(sidecar))
        self.drift = DriftWatch(sidecar.retune.drift_confidence, checkpoint.gap_counts, checkpoint.prompt_counts)
        self.schedule = Schedule(
            sidecar.retune, self._monotonic(checkpoint.last_tuned_at), self._monotonic(checkpoint.last_change_at)
        )
        self.searches = SearchStep(parts, self.memory, self.schedule, self.drift)
        self.trials = TrialStep(parts, self.memory, self.schedule)
        self.shadows = ShadowStep(parts, self.memory)
        self._saved: Checkpoint | None = None
        parts.transitions.recover()

    def step(self) -> None:
        """One whole round; never raises for what others do."""
        self.after_collecting(self.collect())

    def collect(self) -> Answers:
        """Ask every source of every target: the only step that waits."""
        parts, now_s = self.parts, self.parts.clock.monotonic_s()
        if parts.host is not None:
            parts.host.step(parts.rounds, now_s)
        sources = [source for target in parts.targets for source in target.sources]
        timeout_s = self.memory.settings.collect.timeout_s * _PATIENCE
        answers = iter(parts.rounds.collect(sources, now_s, timeout_s))
        return [[next(answers) for _ in target.sources] for target in self.parts.targets]

    def after_collecting(self, answers: Answers) -> None:
        """All other steps, in order."""
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("update", lambda: self.update(answers)),
            ("guard", self.trials.guard),
            ("shadows", self.shadows.update),
            ("validate", self.searches.validate),
            ("tune", self.searches.begin),
            ("publish", self.trials.publish),
            ("checkpoint", self.save),
        )
        for name, do in steps:
            self._attempt(name, do)

    def update(self, answers: Answers) -> None:
        """Take over what came: figures, records, how the load looks."""
        parts, memory = self.parts, self.memory
        intervals = []
        for target, learner, given in zip(parts.targets, parts.learners, answers, strict=True):
            interval = target.update(given)
            saw = learner.take(target.records, target.rates)
            if interval is not None and learner.facts is not None:
                interval = with_prefills(interval, target.records, learner.facts.chunk_tokens)
            intervals.append(interval)
            told = told_by(target, learner.facts)
            if told is not None:
                target.tell(told)
            lengths = saw.prompt_tokens
            if not lengths and target.rates is not None:
                lengths = prompts_of(target.rates.histograms.get(Signal.REQUEST_PROMPT_TOKENS))
            self.drift.observe(saw.gaps_s, lengths)
        memory.interval = _together(intervals)
        if memory.interval is not None:
            memory.window.append(memory.interval)
        memory.find("recording", next((each.trouble for each in parts.learners if each.trouble), None))

    def save(self) -> None:
        """Write the checkpoint, where anything in it changed.

        Raises:
            ConfigError: it cannot be written; the old one stays.
        """
        self.memory.note(mode=self.memory.mode)
        if self.drift.complete:
            self.memory.note(gap_counts=self.drift.gaps, prompt_counts=self.drift.prompts)
        if self.memory.checkpoint != self._saved:
            self.parts.state.save_checkpoint(self.memory.checkpoint)
            self._saved = self.memory.checkpoint

    def close(self) -> None:
        """End well: nothing stays on trial, and everything is on the disk."""
        if self.trials.watch is not None:
            self._attempt("rollback", lambda: self.trials.end(Ending(False, "the sidecar ends")))
        self.parts.tuner.stop()
        for learner in self.parts.learners:
            if learner.recorder is not None:
                learner.recorder.close()
        self._attempt("checkpoint", self.save)
        self.parts.rounds.close()

    def set_mode(self, mode: Mode, who: str) -> None:
        """Do more or less from now on; a trial that the new mode does not allow is taken back.

        Raises:
            AutotuneError: the mode needs what is not there.
        """
        policies = self.parts.transitions
        require_policy_path(policies, mode)
        if mode in TRYING:
            policies.take_again(who)
        policies.change_mode(mode, f"{self.memory.mode} → {mode}", who)
        self.memory.mode = mode
        if mode not in TRYING:
            self.memory.candidate = None
            if self.trials.watch is not None:
                self.trials.end(Ending(False, f"the mode became {mode}"), who)

    def reload(self, settings: Settings) -> None:
        """Take over new settings; a trial or a search that runs keeps those that it began with."""
        sidecar = settings.sidecar
        self.memory.settings, self.memory.online = sidecar, settings.online
        self.schedule.settings = sidecar.retune
        self.drift.confidence = sidecar.retune.drift_confidence
        self.memory.window = window_for(sidecar, self.memory.window)

    def _attempt(self, name: str, do: Callable[[], None]) -> None:
        """One step; what goes wrong is a finding, and the next step follows."""
        try:
            do()
        except AutotuneError as problem:
            self.memory.find(name, str(problem))
        except OSError as problem:
            self.memory.find(name, f"{problem.filename or name}: {problem.strerror or problem}")
        else:
            self.memory.find(name, None)

    def _monotonic(self, moment: datetime | None) -> float | None:
        """A moment of the past on the monotonic clock; one of the future, after the clock was set back, is now."""
        if moment is None:
            return None
        ago = max(timedelta(), self.parts.clock.utc_now() - moment)
        return self.parts.clock.monotonic_s() - ago.total_seconds()


def _together(intervals: Sequence[Interval | None]) -> Interval | None:
    """All engines in one interval; ``None`` where one of them is not known."""
    total: Interval | None = None
    for interval in intervals:
        if interval is None:
            return None
        total = interval if total is None else total.beside(interval)
    return total
