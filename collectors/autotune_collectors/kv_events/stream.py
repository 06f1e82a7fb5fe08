"""Messages in their order: what is missing is asked for, and what cannot be had begins an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autotune.core.clock import Clock
from autotune.core.telemetry.wire import EpochCause
from autotune_collectors.kv_events.feed import EventFeed
from autotune_collectors.kv_events.replay import ReplayClient
from autotune_collectors.kv_events.sequence import Link, SequenceTracker
from autotune_collectors.kv_events.wire import EventDecoder, EventError, parse_sequence

_MIN_FRAMES = 2
_PAUSE_S = 30.0  # after an engine did not answer: each request waits for it
_MAX_ROUNDS = 4  # of one replay: an engine's socket may drop a part of a long answer


class ReplaySource(Protocol):
    """The part of a source that tells of replays."""

    @property
    def replay_endpoint(self) -> str | None:
        """Where the engine answers."""
        ...

    @property
    def replay_timeout_s(self) -> float:
        """Seconds that one replay may take."""
        ...


@dataclass(slots=True)
class StreamCounts:
    """What became of messages since the collector began.

    Attributes:
        messages: Live messages.
        duplicates: Those that a replay had brought before.
        gaps: Times that messages were missing.
        replays: Times that an engine was asked.
        replay_failures: Times that it did not answer in time.
        replayed_messages: Messages applied from replays.
        lost_messages: Messages that could not be had.
        malformed_messages: Messages that were none of KV events.
        restarts: Other starts of the engine.
    """

    messages: int = 0
    duplicates: int = 0
    gaps: int = 0
    replays: int = 0
    replay_failures: int = 0
    replayed_messages: int = 0
    lost_messages: int = 0
    malformed_messages: int = 0
    restarts: int = 0


class EventStream:
    """Brings the messages of one publisher to a feed, each once and in order.

    Args:
        feed: Takes them.
        context: ZMQ context for replays.
        source: Where replays are.
        clock: Times replays.
    """

    def __init__(self, feed: EventFeed, context: Any, source: ReplaySource, clock: Clock) -> None:
        self.counts = StreamCounts()
        self._feed = feed
        self._decoder = EventDecoder()
        self._tracker = SequenceTracker()
        endpoint = source.replay_endpoint
        self._replay = ReplayClient(context, endpoint, source.replay_timeout_s, clock) if endpoint else None
        self._clock = clock
        self._ask_again_s = 0.0
        self._is_asked = False
        self._is_doubted = False
        self._is_quiet = False

    @property
    def is_doubted(self) -> bool:
        """Whether the publisher went away, and nobody knows yet who came after it."""
        return self._is_doubted

    def doubt(self) -> None:
        """The publisher went away: whoever comes next may be another one."""
        self._is_doubted = True

    def settle_doubt(self) -> None:
        """Somebody is there again: the same one still has the message applied last, or it is another one."""
        if self._is_doubted and self._tracker.applied >= 0 and not self._fetch():
            self._forget()
        self._is_doubted = False

    def catch_up_once(self) -> None:
        """Ask for all that was before us, the first time that there is somebody to ask."""
        if not self._is_asked and self._tracker.applied < 0:
            self._fetch()
        self._is_asked = True

    def quiet(self) -> None:
        """Nothing has come for a while: ask once whether the last messages were lost on the way."""
        if not self._is_quiet and self._replay is not None and self._tracker.applied >= 0:
            is_same = self._fetch()
            has_answered = self._clock.monotonic_s() >= self._ask_again_s
            if has_answered and not is_same:
                self._forget()
        self._is_quiet = True

    def take(self, message: Sequence[bytes]) -> None:
        """Take one live message."""
        self.counts.messages += 1
        self._is_quiet = False
        try:
            if len(message) < _MIN_FRAMES:
                raise EventError("a message has a sequence and a payload", got=f"{len(message)} frames")
            sequence, name = parse_sequence(message[-2])
            if sequence < 0:
                raise EventError("a live message has a number from 0 on", got=sequence)
        except EventError:
            self._break_off("a message could not be read")
            self.counts.malformed_messages += 1
            return
        self._place(sequence, name, message[-1])

    def _place(self, sequence: int, name: bytes, payload: bytes) -> None:
        self.settle_doubt()
        if self._tracker.see(sequence, name) is Link.RESTART:
            self._restarted()
        if sequence > self._tracker.applied + 1:
            self.counts.gaps += self._tracker.applied >= 0
            self._fetch()
        if sequence <= self._tracker.applied:
            self.counts.duplicates += 1
            return
        self._apply_after(sequence, payload)

    def _apply_after(self, sequence: int, payload: bytes) -> None:
        """Apply a message; if others are missing before it, they are lost."""
        missing = sequence - self._tracker.applied - 1
        if missing > 0:
            is_first = self._tracker.applied < 0
            self.counts.lost_messages += 0 if is_first else missing
            if is_first:
                self._feed.begin(EpochCause.ATTACHED, "the events before are not known")
            else:
                self._break_off("events were lost")
        elif sequence == 0:
            self._feed.begin(EpochCause.RESTARTED if self.counts.restarts else EpochCause.ATTACHED, "")
        self._apply(sequence, payload)

    def _apply(self, sequence: int, payload: bytes) -> None:
        self._tracker.apply(sequence, payload)
        try:
            batch = self._decoder.decode(payload)
        except EventError:
            self.counts.malformed_messages += 1
            self._break_off("a message could not be read")
            return
        self._feed.apply(batch)

    def _fetch(self) -> bool:
        """Ask for what comes after the message applied last, and apply it.

        Returns:
            Whether the engine still has that message, which proves that it is the same; ``True`` also if there is none.
        """
        is_same = self._tracker.applied < 0
        if self._replay is None or self._clock.monotonic_s() < self._ask_again_s:
            return is_same
        for _ in range(_MAX_ROUNDS):
            before = self._tracker.applied
            self.counts.replays += 1
            try:
                is_same, is_whole = self._one_round(self._replay.since(max(before, 0)), is_same)
            except EventError:
                self.counts.replay_failures += 1
                self._ask_again_s = self._clock.monotonic_s() + _PAUSE_S
                return is_same
            if is_whole or self._tracker.applied == before:
                break
        return is_same

    def _one_round(self, answers: Iterator[tuple[int, bytes]], is_same: bool) -> tuple[bool, bool]:
        """Apply answers as far as they follow.

        Returns:
            Whether the message applied last was among them, and whether all followed.
        """
        for number, payload in answers:
            applied = self._tracker.applied
            if number <= applied:
                if number == applied and not self._tracker.is_last(number, payload):
                    return False, True
                is_same = True
            elif not is_same and applied >= 0:
                return False, True  # the engine no longer has the message, or never had it
            elif number == applied + 1 or applied < 0:
                self.counts.replayed_messages += 1
                self._apply_after(number, payload)
            else:
                return is_same, False
        return is_same, True

    def _forget(self) -> None:
        """The publisher is another one than the one that was followed."""
        self._tracker.restart()
        self._restarted()

    def _restarted(self) -> None:
        self.counts.restarts += 1
        self._feed.begin(EpochCause.RESTARTED, "the engine restarted")

    def _break_off(self, reason: str) -> None:
        self._feed.begin(EpochCause.LOST, reason)
