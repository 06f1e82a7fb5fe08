"""Batches of events as changes of state, in epochs."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from autotune.core.telemetry.events import StoredRun
from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.types import Tier
from autotune_collectors.kv_events.residency import TierBlocks, ids_of, tier_of
from autotune_collectors.kv_events.wire import REMOVED_TYPES, STORED_TYPES, AnyStored, Batch, Event, EventError

EventRecord = EpochStart | StoredRun
_MAX_MEDIA = 64
_MAX_BLOCK_TOKENS = 2**20
_ON_DISK = "what an earlier engine left on disk is not known"
_MAX_UTC_S = 253_402_300_799.0  # the end of the year 9999


@dataclass(slots=True)
class EventCounts:
    """What was met since the collector began.

    Attributes:
        batches: Messages applied.
        events: Events in them.
        clears: Times that the engine emptied its cache.
        unknown_events: Events of kinds that are not known here.
        unknown_media: Events on media that are not known here.
        malformed_events: Events whose hashes or groups make no sense.
        dropped_runs: Stored runs that nobody took in time.
    """

    batches: int = 0
    events: int = 0
    clears: int = 0
    unknown_events: int = 0
    unknown_media: int = 0
    malformed_events: int = 0
    dropped_runs: int = 0


class EventFeed:
    """Keeps the tiers, and the runs that were stored on the device until somebody takes them.

    Args:
        facts: What is known about the engine; goes into the marks of epochs.
        max_blocks: Most blocks to remember per tier.
        max_gone: Most removed blocks to remember per tier, twice.
        max_runs: Most runs that wait; 0 keeps none.
    """

    def __init__(self, facts: StreamFacts, max_blocks: int, max_gone: int, max_runs: int) -> None:
        self.facts = facts
        self.counts = EventCounts()
        self.tiers = {tier: TierBlocks(max_blocks, max_gone) for tier in Tier}
        self._media: dict[str | None, Tier | None] = {}
        self._max_runs = max_runs
        self._records: deque[EventRecord] = deque()
        self._dropped = False
        self._epoch = 0
        self._cause = EpochCause.ATTACHED
        self._start_s: float | None = None  # of the epoch; it begins with its first batch
        self._is_told = False
        self._last_s = 0.0

    def begin(self, cause: EpochCause, reason: str) -> None:
        """Begin an epoch: what was known is forgotten. ``reason`` says why; empty: because nothing lies there."""
        for tier, blocks in self.tiers.items():
            blocks.begin(_ON_DISK if tier is Tier.DISK and not reason else reason)
        self._next_epoch(cause)

    def cut(self, cause: EpochCause) -> None:
        """Begin an epoch of the records alone: what is known of the tiers still holds."""
        self._next_epoch(cause)

    def _next_epoch(self, cause: EpochCause) -> None:
        if self._start_s is None:
            self._cause = cause  # nothing came in the epoch before: it is this one
            return
        self._epoch += 1
        self._cause, self._start_s, self._is_told = cause, None, False

    def apply(self, batch: Batch) -> None:
        """Take over what a message tells."""
        self.counts.batches += 1
        self.counts.events += len(batch.events) + len(batch.unknown)
        time_s = self._time(batch.time_s)
        for event in batch.events:
            try:
                self._apply(event, time_s)
            except EventError:
                self.counts.malformed_events += 1
                self._distrust("an event made no sense")
        if batch.unknown:
            self.counts.unknown_events += len(batch.unknown)
            self._distrust(f"events of kind {batch.unknown[0]!r} are not known")

    def take(self) -> list[EventRecord]:
        """What has come since this was last asked, oldest first. If some of it was dropped, an epoch ends here."""
        taken = list(self._records)
        self._records.clear()
        if self._dropped:
            self._dropped = False
            self._next_epoch(EpochCause.LOST)
        return taken

    def _apply(self, event: Event, time_s: float) -> None:
        if isinstance(event, STORED_TYPES):
            self._store(event, time_s)
        elif isinstance(event, REMOVED_TYPES):
            tier = self._tier(event.medium)
            if tier is not None:
                self.tiers[tier].remove(ids_of(event.block_hashes, event.group_idx), time_s)
        else:
            self._clear()

    def _store(self, event: AnyStored, time_s: float) -> None:
        tier = self._tier(event.medium)
        if tier is None:
            return
        ids = ids_of(event.block_hashes, event.group_idx)
        self.tiers[tier].store(ids, time_s)
        if tier is Tier.DEVICE and self._max_runs and not event.group_idx:
            self._keep_run(ids, event, time_s)

    def _keep_run(self, ids: list[int], event: AnyStored, time_s: float) -> None:
        if self._dropped or len(self._records) >= self._max_runs:
            self._dropped = True  # a gap in the middle would look like none: the rest of this turn goes too
            self.counts.dropped_runs += 1
            return
        parent, size = event.parent_block_hash, event.block_size
        before = ids_of([parent], None)[0] if parent is not None and parent != 0 else None
        block_tokens = size if type(size) is int and 0 < size <= _MAX_BLOCK_TOKENS else 0
        start_s = self._begun(time_s)
        if not self._is_told:
            self._is_told = True
            facts = self.facts if self.facts.chunk_tokens else replace(self.facts, chunk_tokens=block_tokens)
            self._records.append(EpochStart(self._epoch, self._cause, "", utc_text(start_s), facts))
        self._records.append(StoredRun(time_s - start_s, self._epoch, tuple(ids), before, len(ids) * block_tokens))

    def _clear(self) -> None:
        """The device is empty. Whether what lies behind it was emptied too, the event does not say."""
        self.counts.clears += 1
        for tier, blocks in self.tiers.items():
            if tier is Tier.DEVICE:
                blocks.begin("")
            elif blocks.copies:
                blocks.begin("the cache was cleared, perhaps here too")
        self._next_epoch(EpochCause.RESET)

    def _tier(self, medium: object) -> Tier | None:
        name = medium if medium is None or isinstance(medium, str) else str(medium)
        if name not in self._media:
            if len(self._media) >= _MAX_MEDIA:
                self._media.clear()
            self._media[name] = tier_of(name)
        tier = self._media[name]
        self.counts.unknown_media += tier is None
        return tier

    def _distrust(self, reason: str) -> None:
        for blocks in self.tiers.values():
            blocks.reason = blocks.reason or reason

    def _time(self, time_s: float) -> float:
        """Time of a batch, never before that of an earlier one of its epoch."""
        if not math.isfinite(time_s) or not 0.0 <= time_s <= _MAX_UTC_S:
            time_s = self._last_s
        self._last_s = time_s if self._start_s is None else max(time_s, self._last_s)
        self._begun(self._last_s)
        return self._last_s

    def _begun(self, time_s: float) -> float:
        """When the epoch began; now, if nothing has come in it yet."""
        if self._start_s is None:
            self._start_s = time_s
        return self._start_s


def utc_text(time_s: float) -> str:
    """A Unix time as ``2026-01-31T12:00:00.000Z``."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
