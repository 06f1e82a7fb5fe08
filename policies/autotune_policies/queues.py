"""Queues of blocks for the plain policies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

NOBODY = -1


def oldest_idle(queue: OrderedDict[int, int] | OrderedDict[int, None], pinned: Callable[[int], bool]) -> int:
    """The first block of an ordered dict that is not pinned; -1 if there is none. O(pinned blocks at the old end)."""
    return next((block for block in queue if not pinned(block)), NOBODY)


class LinkedQueue:
    """Doubly linked queue, for a hand that stops in its middle. Every operation is O(1)."""

    def __init__(self) -> None:
        self._newer: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self.oldest = NOBODY
        self.newest = NOBODY

    def __len__(self) -> int:
        return len(self._newer)

    def __contains__(self, block: object) -> bool:
        return block in self._newer

    def newer(self, block: int) -> int:
        """The block that was pushed next after this one; -1 if this is the newest."""
        return self._newer[block]

    def push(self, block: int) -> None:
        """Add a block at the newest end."""
        self._newer[block], self._older[block] = NOBODY, self.newest
        if self.newest == NOBODY:
            self.oldest = block
        else:
            self._newer[self.newest] = block
        self.newest = block

    def remove(self, block: int) -> None:
        """Take a block out, wherever it stands."""
        newer, older = self._newer.pop(block), self._older.pop(block)
        if newer == NOBODY:
            self.newest = older
        else:
            self._older[newer] = older
        if older == NOBODY:
            self.oldest = newer
        else:
            self._newer[older] = newer
