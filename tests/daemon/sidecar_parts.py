"""A sidecar of plain parts for tests: scripted figures, a clock that tests move, files in a folder of their own."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.learning_settings import LearningSettings
from autotune.core.policy import PolicyDocument, RankDocument, document_hash, load
from autotune.core.settings import Settings
from autotune.core.sidecar_settings import CollectSettings, GuardSettings, RetuneSettings, SidecarSettings
from autotune.core.signals import Collected, Collector, EngineInfo, HistogramReading, Reading, Signal, Snapshot
from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.units import GIB
from autotune.daemon.engine_facts import GivenFacts
from autotune.daemon.host_watch import HostWatch
from autotune.daemon.jobs import OutcomeKind, Share, TuneJob, TuneOutcome
from autotune.daemon.learning import Learner
from autotune.daemon.live_policy import LivePolicy
from autotune.daemon.loop import Loop
from autotune.daemon.parts import Parts
from autotune.daemon.sources import Round, Source
from autotune.daemon.state import StateFolder
from autotune.daemon.status import Mode
from autotune.daemon.target_view import METRICS, TELEMETRY, TargetView
from autotune.daemon.transitions import Transitions
from autotune.daemon.trial import confirmed, identity
from autotune.daemon.trial import stock as stock_of
from autotune.daemon.tuner import Tuner
from autotune.daemon.wiring import assumed_costs
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document

INTERVAL_S = 5.0
BOUNDS_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, math.inf)
SETTINGS = SidecarSettings(
    collect=CollectSettings(interval_s=INTERVAL_S),
    retune=RetuneSettings(min_requests=100, interval_s=600.0, cooldown_s=120.0),
    guard=GuardSettings(canary_s=300.0, lease_s=60.0),
)

ONLINE = LearningSettings()


def candidate(recency: float = 0.125) -> RankDocument:
    """A policy unlike the example one."""
    document = example_document()
    knobs = document.rank.host
    assert knobs is not None
    changed = document.rank.model_copy(update={"host": knobs.model_copy(update={"lambda_recency": recency})})
    return document.model_copy(update={"rank": changed})


@dataclass
class Engine:
    """What an engine would say on its page; each round adds what was set.

    Attributes:
        clock: Tells the time.
        policy: File that it obeys; ``None`` = it obeys none.
        hit_frac: Share of prompt tokens that the host has.
        slow_frac: Share of requests whose first token takes a second.
        slowness: What times to the first token are multiplied with, though not their buckets.
        up: Whether it answers.
        idle: Whether nothing is asked of it.
        gauges: What else its page shows.
        facts: Settings that its page shows.
    """

    clock: ManualClock
    policy: Path | None = None
    hit_frac: float = 0.1
    slow_frac: float = 0.02
    slowness: float = 1.0
    preemptions: float = 0.0
    failed: float = 0.0
    fallbacks: float = 0.0
    up: bool = True
    idle: bool = False
    started_s: float = 1000.0
    hash_said: str | None = None
    totals: dict[Signal, float] = field(default_factory=dict)
    counts: list[float] = field(default_factory=lambda: [0.0] * len(BOUNDS_S))
    gauges: dict[Signal, float] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    _rounds: int = 0
    _waited_s: float = 0.0
    _in_force: str = ""
    _lease_end_s: float | None = None
    _fallback: str = ""
    _seen: bytes = b""

    name = METRICS

    def collect(self, now_s: float) -> Collected[Any]:
        """One look at the page."""
        if not self.up:
            return Collected(ok=False, seconds=0.01, error="no connection")
        self._obey()
        if not self.idle:
            self._work()
        shown = self.totals | self.gauges
        readings = {signal: Reading(value, now_s, signal.value) for signal, value in shown.items()}
        readings[Signal.PROCESS_START_S] = Reading(self.started_s, now_s, "start")
        readings[Signal.REQUESTS_WAITING] = Reading(0.0, now_s, "waiting")
        facts = {"policy_hash": self.hash_said or self._in_force[:12]} if self.hash_said or self._in_force else {}
        info = EngineInfo("vllm", "0.32.0", "llama-3.1-8b", facts=facts | self.facts)
        ttft = HistogramReading(sum(self.counts), self._waited_s, BOUNDS_S, tuple(self.counts), now_s, "ttft")
        return Collected(
            ok=True, seconds=0.01, snapshot=Snapshot("engine", now_s, info, readings, {Signal.TTFT_S: ttft})
        )

    def restart(self) -> None:
        """A new process: counters begin at zero."""
        self.started_s += 100.0
        self.totals.clear()
        self.counts = [0.0] * len(BOUNDS_S)
        self._waited_s = 0.0

    def _work(self) -> None:
        """A round's requests: 40 of 1,000 tokens, a little different each time."""
        self._rounds += 1
        requests = 40.0 + self._rounds % 3
        slow = requests * self.slow_frac
        hit = 1000.0 * requests * self.hit_frac * (1.0 + 0.02 * (self._rounds % 5 - 2))
        added = {
            Signal.PROMPT_TOKENS: 1000.0 * requests,
            Signal.GENERATION_TOKENS: 50.0 * requests,
            Signal.REQUESTS_FINISHED: requests,
            Signal.REQUESTS_ERRORED: self.failed,
            Signal.PREEMPTIONS: self.preemptions,
            Signal.CACHED_DEVICE_TOKENS: 100.0 * requests,
            Signal.CACHED_EXTERNAL_TOKENS: hit,
            Signal.LOAD_SECONDS: hit * 1e-6,
            Signal.STORE_SECONDS: 0.01,
            Signal.LOAD_BYTES: hit * 131_072,
            Signal.STORE_BYTES: 1e9,
            Signal.PLUGIN_FALLBACKS: self.fallbacks,
        }
        for signal, value in added.items():
            self.totals[signal] = self.totals.get(signal, 0.0) + value
        self.counts[1] += requests - slow
        self.counts[5] += slow
        self._waited_s += 0.75 * self.slowness * (BOUNDS_S[1] * (requests - slow) + BOUNDS_S[5] * slow)

    def _obey(self) -> None:
        """Do with the policy file as the plug-in does: content decides, and a lease ends by itself."""
        now_s = self.clock.utc_now().timestamp()
        if self._lease_end_s is not None and now_s >= self._lease_end_s:
            self._in_force, self._lease_end_s = self._fallback, None
        if self.policy is None or not self.policy.exists() or self.idle:
            return
        content = self.policy.read_bytes()
        if content == self._seen:
            return
        self._seen = content
        document = load(self.policy)
        self._in_force = document_hash(confirmed(document))
        self._lease_end_s = None
        if document.lease is not None:
            self._lease_end_s = document.lease.expires_at.timestamp()
            self._fallback = document_hash(document.lease.fallback)


class Telemetry:
    """A source of records that tests fill."""

    name = TELEMETRY

    def __init__(self) -> None:
        facts = StreamFacts("vllm 0.32.0", "llama-3.1-8b", 16, 131_072)
        start = EpochStart(0, EpochCause.ATTACHED, "ab" * 8, "2026-01-31T12:00:00.000Z", facts)
        self.waiting: list[Any] = [start]
        self.ok = True
        self.slowness = 1.0  # what seconds of prefill are multiplied with
        self._requests = 0

    def add(self, n_requests: int, gap_s: float = 10.0) -> None:
        """Let requests be told about with the next round."""
        for _ in range(n_requests):
            self._requests += 1
            self.waiting.append(
                AccessRecord(
                    time_s=float(self._requests),
                    epoch=0,
                    request=self._requests,
                    chain=-1,
                    block_ids=(self._requests,),
                    first_depth_blocks=0,
                    tokens=1000,
                    tier=None,
                    moved_bytes=0,
                    seconds=0.05 * self.slowness * (1.0 + 0.02 * (self._requests % 5 - 2)),
                    features=AccessFeatures(gap_s=gap_s),
                )
            )

    def collect(self, now_s: float) -> Collected[Any]:
        """What waits."""
        records, self.waiting = tuple(self.waiting), []
        return Collected(ok=self.ok, seconds=0.0, error=None if self.ok else "no publisher", records=records)


class InPlace(Round):
    """Asks sources one after the other in the caller's thread, so that a test of a thousand rounds is quick."""

    def collect(self, sources: Sequence[Source], now_s: float, timeout_s: float) -> list[Collected[Any] | None]:
        """One answer per source."""
        for source in sources:
            self.start(source, now_s)
        return [source.take(now_s, timeout_s) for source in sources]

    def start(self, source: Source, now_s: float) -> None:
        """The answer is there at once."""
        turn: Future[Collected[Any]] = Future()
        turn.set_result(source.turn(now_s))
        source.give(turn)


class Counted:
    """A recorder that only counts."""

    def __init__(self) -> None:
        self.requests = 0
        self.source = "recording:/nowhere"

    def take(self, records: Sequence[Any]) -> str | None:
        """Count the requests."""
        self.requests += sum(isinstance(record, AccessRecord) for record in records)
        return None

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


class ScriptedTuner(Tuner):
    """Finds what a test says, one round after it was started."""

    def __init__(self, work: Path, clock: ManualClock) -> None:
        super().__init__(work, clock)
        self.jobs: list[TuneJob] = []
        self.found: list[tuple[PolicyDocument | None, TuneOutcome]] = []
        self._is_running = False
        self._folder = work

    @property
    def running(self) -> bool:
        """Whether a search was started."""
        return self._is_running

    def start(self, job: TuneJob) -> None:
        """Take note of it."""
        self.jobs.append(job)
        self._is_running = True

    def poll(self) -> TuneOutcome | None:
        """The next thing found."""
        if not self._is_running or not self.found:
            return None
        self._is_running = False
        document, outcome = self.found.pop(0)
        if document is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            save(document, self._folder / "policy.yaml")
        return outcome

    def finds(self, document: PolicyDocument) -> None:
        """Let the next search find a policy."""
        share = Share(value=0.3, low=0.2, high=0.4)
        found = TuneOutcome(
            kind=OutcomeKind.POLICY,
            text="it saves 30 %",
            policy="policy.yaml",
            gain=share,
            device_hit_frac=Share(value=0.1, low=0.08, high=0.12),
            host_hit_frac=Share(value=0.4, low=0.35, high=0.45),
            requests=1000,
            seconds=12.0,
        )
        self.found.append((document, found))

    def finds_nothing(self) -> None:
        """Let the next search find that nothing is worth it."""
        outcome = TuneOutcome(kind=OutcomeKind.NO_GAIN, text="it saves +0.1 % (-1.0 to +1.2)", requests=1000)
        self.found.append((None, outcome))


class Bench:
    """A sidecar with one engine, and everything that a test wants to touch.

    Args:
        folder: Where its files lie.
        mode: How much it may do.
        settings: Settings of the sidecar.
        online: Settings of the learned loop.
        with_policy: Whether the engine watches a policy file.
        clock: Tells the time.
        engine: What serves; a new one if not given.
        further: Further sources of the engine.
        host: Facts of the machine.
    """

    def __init__(
        self,
        folder: Path,
        mode: Mode | None = Mode.AUTO,
        settings: SidecarSettings = SETTINGS,
        online: LearningSettings = ONLINE,
        with_policy: bool = True,
        clock: ManualClock | None = None,
        engine: Engine | None = None,
        further: Sequence[Collector[Any]] = (),
        host: HostWatch | None = None,
    ) -> None:
        self.folder, self.settings = folder, settings
        self.clock = clock or ManualClock()
        self.live = folder / "live.yaml"
        self.engine = engine or Engine(self.clock, self.live if with_policy else None)
        self.telemetry = Telemetry()
        self.react: Callable[[Engine, str | None], None] = lambda engine, hash_: None
        state = StateFolder(folder / "state")
        self.tuner = ScriptedTuner(state.work, self.clock)
        sources: tuple[Collector[Any], ...] = (self.engine, self.telemetry, *further)
        self.parts = Parts(
            clock=self.clock,
            targets=(TargetView("http://127.0.0.1:8000", [Source(each) for each in sources]),),
            learners=(Learner(assumed_costs(None, None), self.clock, Counted()),),
            rounds=InPlace(),
            state=state,
            transitions=Transitions(
                state, LivePolicy(self.live) if with_policy else None, self.clock, settings.guard.lease_s
            ),
            tuner=self.tuner,
            given=GivenFacts(40 * GIB, 160 * GIB),
            host=host,
        )
        self._content: bytes | None = None
        self._identity: str | None = None
        self.loop = Loop(self.parts, Settings(sidecar=settings, online=online), mode)

    @property
    def state(self) -> StateFolder:
        """Its state folder."""
        return self.parts.state

    def rounds(self, n: int, requests: int = 10) -> None:
        """Let time and rounds pass."""
        for _ in range(n):
            self.clock.advance(INTERVAL_S)
            self.telemetry.add(requests)
            self.react(self.engine, self._in_force())
            self.loop.step()

    def _in_force(self) -> str | None:
        """Identity of the live policy; parsed anew only where the file changed."""
        content = self.live.read_bytes() if self.live.exists() else None
        if content != self._content:
            live = self.live_document()
            self._content, self._identity = content, None if live is None else identity(live)
        return self._identity

    def live_document(self) -> PolicyDocument | None:
        """What the engine's file has."""
        return load(self.live) if self.live.exists() else None

    def kinds(self) -> list[str]:
        """What the audit log says happened."""
        return [entry.kind.value for entry in self.state.audit.entries]

    def into_trial(self, document: PolicyDocument) -> None:
        """Rounds until that policy is on trial."""
        self.tuner.finds(document)
        for _ in range(40):
            self.rounds(1)
            if self.loop.trials.watch is not None:
                return
        raise AssertionError(f"no trial began: {self.loop.memory.findings}")

    def restarted(self, mode: Mode | None = Mode.AUTO) -> Bench:
        """Another sidecar process on the same files and the same engine, the first one gone without a word."""
        return Bench(self.folder, mode, self.settings, clock=self.clock, engine=self.engine)


def better_under(good: PolicyDocument) -> Callable[[Engine, str | None], None]:
    """An engine whose host has more under one policy."""
    wanted = identity(good)

    def react(engine: Engine, in_force: str | None) -> None:
        engine.hit_frac = 0.4 if in_force == wanted else 0.1

    return react


def with_guard(**changes: Any) -> SidecarSettings:
    """The usual settings with another guard."""
    return SETTINGS.model_copy(update={"guard": SETTINGS.guard.model_copy(update=changes)})


def only_confirmed_or_leased(live: Path, state: Path) -> None:
    """What must hold whenever a sidecar is killed: the live policy is confirmed, or a trial that falls back to that.

    Raises:
        AssertionError: it is something else.
    """
    if not live.exists():
        return
    document = load(live)
    path = state / "confirmed.yaml"
    holds = {identity(load(path))} if path.exists() else set()
    previous = state / "previous.yaml"
    if previous.exists():
        holds.add(identity(load(previous)))
    if document.lease is None:
        assert identity(document) in holds
    else:
        assert identity(document.lease.fallback) in holds
        assert document.lease.fallback.lease is None


def environment(folder: Path) -> dict[str, str]:
    """Environment of a sidecar whose locks and state lie in a folder of the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KV_AUTOTUNE_")}
    return kept | {"XDG_STATE_HOME": str(folder), "OMP_NUM_THREADS": "1"}


__all__ = [
    "SETTINGS",
    "Bench",
    "Counted",
    "Engine",
    "ScriptedTuner",
    "Telemetry",
    "better_under",
    "candidate",
    "environment",
    "only_confirmed_or_leased",
    "stock_of",
    "with_guard",
]
