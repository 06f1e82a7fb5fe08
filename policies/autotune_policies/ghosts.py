"""What a policy remembers about blocks that are not resident, bounded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """How a block was used.

    Attributes:
        frequency: Decayed number of accesses at the last one.
        last_ns: Time of the last access.
    """

    frequency: float
    last_ns: int


class Ghosts:
    """Usage of blocks that left or were refused; the one that became a ghost first is forgotten first.

    Args:
        limit_blocks: Most entries kept.
    """

    def __init__(self, limit_blocks: int) -> None:
        self.limit_blocks = limit_blocks
        self._usage: OrderedDict[int, Usage] = OrderedDict()

    def __len__(self) -> int:
        return len(self._usage)

    def __contains__(self, block: object) -> bool:
        return block in self._usage

    def get(self, block: int) -> Usage | None:
        """Usage of a ghost; None if the block is none."""
        return self._usage.get(block)

    def take(self, block: int) -> Usage | None:
        """Usage of a ghost, which is one no longer; None if the block is none."""
        return self._usage.pop(block, None)

    def put(self, block: int, usage: Usage) -> None:
        """Make a block the newest ghost, forgetting the oldest where there is no room."""
        self._usage.pop(block, None)
        if self.limit_blocks < 1:
            return
        if len(self._usage) >= self.limit_blocks:
            self._usage.popitem(last=False)
        self._usage[block] = usage
