"""Approximate access counts of any number of blocks in a fixed number of bytes."""

from __future__ import annotations

from autotune.core.decide.sketch import MAX_COUNT, ROWS, sketch_hash, sketch_slot, sketch_width

_HALVED = bytes(count >> 1 for count in range(256))


class FrequencySketch:
    """Count-min sketch with counters up to 15 that are all halved every ``period`` accesses.

    An access costs four counters; the halving runs over all of them, which is O(1) per access.

    Args:
        capacity_blocks: Blocks that the cache holds; sets the width.
        period: Accesses from one halving to the next.

    Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS 13(4), 2017.
    """

    def __init__(self, capacity_blocks: int, period: int) -> None:
        self._width = sketch_width(capacity_blocks)
        self._period = period
        self._accesses = 0
        self._counts = bytearray(ROWS * self._width)

    def add(self, block: int) -> None:
        """Count one access."""
        mixed = sketch_hash(block)
        for row in range(ROWS):
            slot = sketch_slot(mixed, row, self._width)
            if self._counts[slot] < MAX_COUNT:
                self._counts[slot] += 1
        self._accesses += 1
        if self._accesses >= self._period:
            self._counts = self._counts.translate(_HALVED)
            self._accesses //= 2

    def estimate(self, block: int) -> int:
        """Accesses of a block, fading; too high where others share all its counters, never too low below 15."""
        mixed = sketch_hash(block)
        return min(self._counts[sketch_slot(mixed, row, self._width)] for row in range(ROWS))
