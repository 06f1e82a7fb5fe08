"""What a sidecar is made of, and what it remembers between two rounds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from autotune.core.clock import Clock
from autotune.core.learning_settings import LearningSettings
from autotune.core.policy import PolicyDocument
from autotune.core.sidecar_settings import SidecarSettings
from autotune.daemon.engine_facts import EngineProfile, GivenFacts, profile_of
from autotune.daemon.guard import SecondsPerToken
from autotune.daemon.host_watch import HostWatch
from autotune.daemon.jobs import TuneOutcome
from autotune.daemon.learning import Learner
from autotune.daemon.pace import TimePromise
from autotune.daemon.sources import Round
from autotune.daemon.state import Checkpoint, StateFolder
from autotune.daemon.status import Mode
from autotune.daemon.target_view import TargetView
from autotune.daemon.transitions import Transitions
from autotune.daemon.trial import identity
from autotune.daemon.tuner import Tuner
from autotune.daemon.windows import Interval, Window

MIN_BEFORE = 8  # intervals without which a trial has nothing to be compared with
TRYING = (Mode.CANARY, Mode.AUTO)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sidecar is made of.

    Attributes:
        clock: Tells the time.
        targets: Engines of the group.
        learners: One per target, in the same order.
        rounds: Asks their sources.
        state: The state folder.
        transitions: The policies.
        tuner: The search.
        given: What the user said about the engines.
        host: The machine that they run on; ``None`` = it is another one than this.
    """

    clock: Clock
    targets: tuple[TargetView, ...]
    learners: tuple[Learner, ...]
    rounds: Round
    state: StateFolder
    transitions: Transitions
    tuner: Tuner
    given: GivenFacts
    host: HostWatch | None = None

    @property
    def requests(self) -> int:
        """Requests in the recording of the busiest engine."""
        return max((each.recorder.requests for each in self.learners if each.recorder is not None), default=0)

    @property
    def best_learner(self) -> Learner:
        """Whoever saw most."""
        return max(self.learners, key=lambda each: (each.recorder.requests if each.recorder else 0, each.samples))

    @property
    def seconds_per_token(self) -> SecondsPerToken:
        """What turns tokens into seconds: measured where anything was, else as the hardware's table says."""
        learner = self.best_learner
        return SecondsPerToken(learner.seconds_per_token(), learner.profile().store_exposed_frac)

    def engine_profile(self) -> EngineProfile | str:
        """The engine as a search must know it, or what is missing to know it."""
        return profile_of(self.targets, self.best_learner.facts, self.given, self.transitions.confirmed)


@dataclass(slots=True)
class Memory:
    """What is remembered between rounds, for the next ones, for the checkpoint and for the surface.

    Attributes:
        settings: Settings of the sidecar.
        online: Settings of the learned loop.
        mode: How much may be done.
        checkpoint: What is written down.
        window: The last intervals, of the group together.
        interval: The newest of them; ``None`` = not known, as after a restart.
        outcome: What the last search found.
        predicted_hash: Policy that its predictions are for; ``None`` = for the engine's own.
        ttft_promise: Mean time to the first token that the last trial promised, and how fast the machine was then;
            ``None`` = none.
        candidate: Policy that waits for its trial, and why.
        recommendation: Policy that is recommended.
        tune_reason: Why the last or present search was started.
        findings: What is wrong, in words, by the step that found it.
    """

    settings: SidecarSettings
    online: LearningSettings
    mode: Mode
    checkpoint: Checkpoint
    window: deque[Interval]
    interval: Interval | None = None
    outcome: TuneOutcome | None = None
    predicted_hash: str | None = None
    ttft_promise: TimePromise | None = None
    candidate: tuple[PolicyDocument, str] | None = None
    recommendation: PolicyDocument | None = None
    tune_reason: str | None = None
    findings: dict[str, str] = field(default_factory=dict)

    @property
    def recent(self) -> Window:
        """The last intervals."""
        return Window(tuple(self.window))

    @property
    def hit_frac(self) -> float | None:
        """Share of the prompt tokens of a whole window that some tier had; ``None`` = the window is not full yet."""
        if len(self.window) != self.window.maxlen:
            return None  # of a few requests it says nothing about the load
        device = self.recent.share("device_hit_tokens", "prompt_tokens")
        host = self.recent.share("host_hit_tokens", "prompt_tokens")
        return None if device is None else device + (host or 0.0)

    def note(self, **changes: object) -> None:
        """Change what the next checkpoint writes down."""
        self.checkpoint = self.checkpoint.model_copy(update=changes)

    def find(self, name: str, text: str | None) -> None:
        """Say what is wrong with one step, or that nothing is any more."""
        if text is None:
            self.findings.pop(name, None)
        else:
            self.findings[name] = text

    def predictions_hold(self, in_force: PolicyDocument | None) -> bool:
        """Whether the outcome's predictions are for what is in force."""
        now = None if in_force is None else identity(in_force)
        return self.outcome is not None and self.predicted_hash == now


def window_for(settings: SidecarSettings, intervals: deque[Interval] | None = None) -> deque[Interval]:
    """Room for as many intervals as a trial has."""
    length = max(2 * MIN_BEFORE, round(settings.guard.canary_s / settings.collect.interval_s))
    return deque(intervals or (), maxlen=length)
