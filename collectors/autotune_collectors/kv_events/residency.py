"""Which blocks lie on which tier, as far as events tell, and whether that can be trusted.

A tier is usable only while every change of it is known since it was last known empty or full. What breaks that makes
it unusable until one of three things makes it known again: the engine starts anew and its first message is there, its
cache is cleared, or as many blocks are known to lie there as the tier can hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autotune.core.types import Tier
from autotune_collectors.kv_events.wire import EventError, block_id

_GROUP_SHIFT = 64
_GAP_BINS = 32
_MIN_GAP_S = 2.0**-6
_PREFIXES = (
    (Tier.DEVICE, ("gpu", "cuda", "device", "npu", "hbm", "xpu", "hpu", "tpu")),
    (Tier.HOST, ("cpu", "dram", "host")),
    (Tier.DISK, ("disk", "storage", "fs", "ssd", "nvme")),
)


def tier_of(medium: object) -> Tier | None:
    """The tier that an engine's medium names, ``None`` if it is none that is known; nothing said means the device.

    Source: vLLM 0.32, ``MEDIUM_GPU``, ``MEDIUM_CPU``, ``MEDIUM_STORAGE``; SGLang 0.5, ``StorageMedium``.
    """
    if medium is None:
        return Tier.DEVICE
    name = str(medium).lower().removeprefix("device(type='")
    return next((tier for tier, prefixes in _PREFIXES if name.startswith(prefixes)), None)


@dataclass(frozen=True, slots=True)
class TierView:
    """What is known of one tier.

    Attributes:
        usable: Whether ``resident_blocks`` is known.
        reason: Why it is not; empty if it is.
        resident_blocks: Blocks that lie there, copies counted; ``None`` = unknown.
        stored_blocks: Blocks stored since the collector began.
        removed_blocks: Blocks removed since then.
        restored_blocks: Stored again within memory after they had been removed: computed or copied twice.
        gap_counts: ``(32,)`` those by the time that they were away: bin i from 2**(i-6) s on, the first from 0 on.
    """

    usable: bool
    reason: str
    resident_blocks: int | None
    stored_blocks: int
    removed_blocks: int
    restored_blocks: int
    gap_counts: tuple[int, ...]


@dataclass(slots=True)
class TierBlocks:
    """The blocks of one tier, of bounded number.

    Attributes:
        max_blocks: Most blocks to remember; beyond, the tier is not usable.
        max_gone: Most removed blocks to remember, twice.
        capacity_blocks: What the tier can hold, where known.
    """

    max_blocks: int
    max_gone: int
    capacity_blocks: int | None = None
    reason: str = "nothing seen yet"
    stored_blocks: int = 0
    removed_blocks: int = 0
    restored_blocks: int = 0
    copies: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    gone: dict[int, float] = field(default_factory=dict)
    gone_before: dict[int, float] = field(default_factory=dict)
    gap_counts: list[int] = field(default_factory=lambda: [0] * _GAP_BINS)

    def begin(self, reason: str) -> None:
        """Forget what lies here. ``reason`` says why it is not known; empty: because nothing does."""
        self.counts.clear()
        self.gone.clear()
        self.gone_before.clear()
        self.copies = 0
        self.reason = reason

    def limit(self, capacity_blocks: int | None) -> None:
        """Say what the tier can hold; ``None`` = not known."""
        self.capacity_blocks = capacity_blocks
        self._check()

    def store(self, block_ids: list[int], time_s: float) -> None:
        """Blocks have come."""
        counts, gone, gone_before = self.counts, self.gone, self.gone_before
        for block in block_ids:
            known = counts.get(block)
            if known is not None:
                counts[block] = known + 1
                continue
            counts[block] = 1
            if block in gone:
                self._came_back(time_s - gone.pop(block))
            elif block in gone_before:
                self._came_back(time_s - gone_before.pop(block))
        self.copies += len(block_ids)
        self.stored_blocks += len(block_ids)
        self._check()

    def remove(self, block_ids: list[int], time_s: float) -> None:
        """Blocks have gone. One that is not known to lie here is a contradiction where all that do are known."""
        counts = self.counts
        self.removed_blocks += len(block_ids)
        for block in block_ids:
            known = counts.pop(block, 0)
            if known > 1:
                counts[block] = known - 1
            elif known == 1:
                self.gone[block] = time_s
            elif not self.reason:
                self.reason = "a block was removed that was never stored"
            self.copies -= known > 0
        if len(self.gone) >= self.max_gone:
            self.gone_before, self.gone = self.gone, {}

    def _came_back(self, gap_s: float) -> None:
        self.restored_blocks += 1
        place = int(math.log2(gap_s / _MIN_GAP_S)) if gap_s > _MIN_GAP_S else 0
        self.gap_counts[min(place, _GAP_BINS - 1)] += 1

    def _check(self) -> None:
        capacity = self.capacity_blocks
        if len(self.counts) > self.max_blocks:
            self.begin(f"more than {self.max_blocks} blocks")
        elif capacity is not None and self.copies > capacity:
            self.begin(f"more blocks than the {capacity} that it can hold")
        elif self.reason and capacity and self.copies == capacity:
            self.reason = ""  # as many as can lie here are known, so all of them are

    def view(self, doubt: str = "") -> TierView:
        """What is known now; ``doubt`` says why not even that is, for the time being."""
        reason = self.reason or doubt
        return TierView(
            usable=not reason,
            reason=reason,
            resident_blocks=None if reason else self.copies,
            stored_blocks=self.stored_blocks,
            removed_blocks=self.removed_blocks,
            restored_blocks=self.restored_blocks,
            gap_counts=tuple(self.gap_counts),
        )


def ids_of(block_hashes: list[object], group: object) -> list[int]:
    """Numbers of the blocks of an event; those of groups beyond the first are numbers of their own.

    Raises:
        EventError: a hash or the group is of no form that is known.
    """
    # The common form is decided without a call per hash.
    ids = [h & 0xFFFFFFFFFFFFFFFF if type(h) is int else block_id(h) for h in block_hashes]
    if group is None or group == 0:
        return ids
    if type(group) is not int or group < 0:
        raise EventError("a group must be a number", got=repr(group)[:40])
    return [number | group << _GROUP_SHIFT for number in ids]
