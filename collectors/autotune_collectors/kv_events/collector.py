"""Follows an engine's KV events: nothing is missed unseen, and what cannot be trusted says so."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import ConfigError
from autotune.core.signals import Collected, EngineTold, Reading, Signal, Snapshot, Target
from autotune.core.telemetry.wire import EpochCause, StreamFacts
from autotune.core.types import Tier
from autotune_collectors.kv_events.discovery import discover
from autotune_collectors.kv_events.feed import EventCounts, EventFeed, EventRecord
from autotune_collectors.kv_events.residency import TierView
from autotune_collectors.kv_events.stream import EventStream, StreamCounts
from autotune_collectors.subscription import Subscription

_NO_FACTS = StreamFacts("", "", 0, 0)
_MAX_TURN_MESSAGES = 50_000
_RESIDENT = {Tier.DEVICE: Signal.DEVICE_RESIDENT_BLOCKS, Tier.HOST: Signal.HOST_RESIDENT_BLOCKS}


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where an engine publishes.

    Attributes:
        endpoint: ``tcp://HOST:PORT`` or ``ipc://PATH``; ``*`` as the host stands for loopback.
        replay_endpoint: Where it answers requests for what was missed; ``None`` = nowhere.
        topic: What its messages begin with; empty takes all.
        max_blocks: Most blocks to remember per tier, at about 100 bytes each.
        max_gone: Most removed blocks to remember per tier, twice.
        max_runs: Most stored runs that wait to be taken; 0 keeps none.
        max_waiting: Most messages that wait between two looks; beyond, they are missed and asked for again.
        interval_s: Seconds between two looks of the collector's own thread; 0 has none, and ``collect`` looks.
        replay_timeout_s: Seconds that one replay may take.
        quiet_s: Seconds without a message after which it asks whether the last ones were lost.
    """

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""
    max_blocks: int = 500_000
    max_gone: int = 50_000
    max_runs: int = 65_536
    max_waiting: int = 5_000
    interval_s: float = 0.5
    replay_timeout_s: float = 2.0
    quiet_s: float = 5.0


@dataclass(frozen=True, slots=True)
class EventsView:
    """What the collector knows.

    Attributes:
        connected: Whether the publisher is there.
        tiers: What lies where.
        events: What was met in the messages.
        stream: What became of the messages.
    """

    connected: bool
    tiers: Mapping[Tier, TierView]
    events: EventCounts
    stream: StreamCounts


class KvEventsCollector:
    """Collects KV events of one publisher; one collector per data-parallel rank.

    What is handed on is :class:`StoredRun`, and before the first of each epoch an :class:`EpochStart`. An epoch begins
    where messages are missing for good, where the engine was restarted, and where its cache was cleared. The blocks
    that lie on a tier are readings of the snapshot, for as long as they are known.

    A thread of its own looks twice a second, so that ZMQ's queue stays short whatever the interval of the loop.

    Args:
        source: Where the engine publishes.
        facts: What is known about the engine; goes into the marks of epochs.
        clock: Times the turns and replays.

    Raises:
        ConfigError: an endpoint is no address of ZMQ.
    """

    def __init__(self, source: EventSource, facts: StreamFacts = _NO_FACTS, clock: Clock | None = None) -> None:
        self._source = source
        self._clock = clock or SystemClock()
        self._subscription = Subscription(source.endpoint, source.topic.encode(), source.max_waiting)
        self._feed = EventFeed(facts, source.max_blocks, source.max_gone, source.max_runs)
        self._stream = EventStream(self._feed, self._subscription.context, source, self._clock)
        self._told_lost = 0
        self._restarts_told = 0  # restarts that were seen when the engine was last described
        self._disconnects = 0
        self._heard_s = self._clock.monotonic_s()
        self._fault: str | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if source.interval_s > 0.0:
            self._thread = threading.Thread(target=self._run, name="kv-autotune kv events", daemon=True)
            self._thread.start()

    @classmethod
    def at(cls, endpoint: str, replay_endpoint: str | None, clock: Clock) -> KvEventsCollector:
        """One for a publisher at that address, as a caller makes it who knows this class by its name alone.

        Raises:
            ConfigError: an endpoint is no address of ZMQ.
        """
        return cls(EventSource(endpoint, replay_endpoint), clock=clock)

    @classmethod
    def discovered(cls, target: Target, timeout_s: float, clock: Clock) -> KvEventsCollector | None:
        """One for what the engine itself says about its publisher; ``None`` = it says nothing that can be used."""
        found = discover(target, timeout_s)
        try:
            return None if found is None else cls.at(*found, clock)
        except ConfigError:
            return None

    @property
    def name(self) -> str:
        """Name in status, metrics and logs."""
        return "kv_events"

    def inform(self, told: EngineTold) -> None:
        """Take over what the engine's page tells: what its tiers can hold, and who it is."""
        for tier in Tier:
            self.set_capacity(tier, told.capacity_blocks.get(tier))
        if told.facts is not None:
            self.set_facts(told.facts)

    def set_capacity(self, tier: Tier, blocks: int | None) -> None:
        """Say how many blocks a tier can hold, from the engine's metrics; lets a tier become usable again."""
        with self._lock:
            self._feed.tiers[tier].limit(blocks)

    def set_facts(self, facts: StreamFacts) -> None:
        """Say what is known about the engine; another model than before begins an epoch.

        Where the stream itself has shown a restart since, that is where the other model came from: what has been stored
        under it is kept, and only the recording is cut.
        """
        with self._lock:
            if _contradict(self._feed.facts, facts):
                if self._stream.counts.restarts == self._restarts_told:
                    self._feed.begin(EpochCause.CHANGED, "the engine's model changed")
                else:
                    self._feed.cut(EpochCause.CHANGED)
            self._restarts_told = self._stream.counts.restarts
            self._feed.facts = facts

    def collect(self, now_s: float) -> Collected[EventRecord]:
        """What was stored since the last turn."""
        start_s = self._clock.monotonic_s()
        with self._lock:
            self._look()
            records = self._feed.take()
            connected, fault, self._fault = self._subscription.connected, self._fault, None
            lost = self._stream.counts.lost_messages + self._stream.counts.malformed_messages
            lost += self._feed.counts.dropped_runs
            new_lost, self._told_lost = lost - self._told_lost, lost
            snapshot = self._snapshot(now_s)
        if fault is None and not connected and not records:
            fault = f"nobody publishes at {self._source.endpoint}"
        return Collected(
            ok=fault is None,
            seconds=self._clock.monotonic_s() - start_s,
            error=fault,
            snapshot=snapshot,
            records=records,
            lost=new_lost,
        )

    def view(self) -> EventsView:
        """What is known now."""
        with self._lock:
            return EventsView(
                connected=self._subscription.connected,
                tiers=self._tiers(),
                events=replace(self._feed.counts),
                stream=replace(self._stream.counts),
            )

    def close(self) -> None:
        """End the thread and let go of the sockets."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._subscription.close()

    def _tiers(self) -> dict[Tier, TierView]:
        doubt = "the publisher went away" if self._stream.is_doubted else ""
        return {tier: blocks.view(doubt) for tier, blocks in self._feed.tiers.items()}

    def _snapshot(self, now_s: float) -> Snapshot:
        """Blocks on the tiers; a tier that is not usable has no reading."""
        tiers = self._tiers()
        readings = {
            signal: Reading(float(blocks), now_s, self.name)
            for tier, signal in _RESIDENT.items()
            if (blocks := tiers[tier].resident_blocks) is not None
        }
        return Snapshot(self._source.endpoint, now_s, readings=readings)

    def _run(self) -> None:
        while not self._stop.wait(self._source.interval_s):
            with self._lock:
                self._look()

    def _look(self) -> None:
        """Take what waits. Whatever goes wrong is told by the next turn."""
        try:
            messages = list(self._subscription.messages(_MAX_TURN_MESSAGES))
            self._subscription.look()  # after the messages: that the publisher of one of them is new is known by now
            if self._subscription.disconnects != self._disconnects:
                self._disconnects = self._subscription.disconnects
                self._stream.doubt()
            if self._subscription.connected:
                self._stream.catch_up_once()
            for message in messages:
                self._stream.take(message)
            if self._subscription.connected:
                self._stream.settle_doubt()
            now_s = self._clock.monotonic_s()
            if messages:
                self._heard_s = now_s
            elif self._subscription.connected and now_s - self._heard_s >= self._source.quiet_s:
                self._stream.quiet()
        except (OSError, ConfigError) as problem:
            self._fault = str(problem)


def _contradict(before: StreamFacts, after: StreamFacts) -> bool:
    """Whether two descriptions cannot be of the same engine; what one of them leaves open says nothing."""
    pairs = (
        (before.model, after.model),
        (before.chunk_tokens, after.chunk_tokens),
        (before.kv_bytes_per_token, after.kv_bytes_per_token),
    )
    return any(bool(one) and bool(other) and one != other for one, other in pairs)
