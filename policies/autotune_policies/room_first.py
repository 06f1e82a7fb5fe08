"""Frame of the policies whose textbook makes room before it takes a block in.

Callers report all insertions of a request and evict afterwards. ARC, S3-FIFO and SIEVE, however, choose a victim by
the state of their queues without the new block. So a block that is inserted into a full tier waits in line; each
eviction makes room for the first in line, and that one then joins its queue. For requests of one block this is the
textbook, access by access; a request of many blocks is the same blocks one after the other, except that all its hits
and all its ghost hits take effect before its first eviction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable

from autotune.core.eviction import BlockAccess, TierContext, nothing_pinned
from autotune_policies.parameters import ParameterisedPolicy

NEW = 0


class RoomFirstPolicy(ParameterisedPolicy):
    """Waiting line in front of a policy's queues.

    Subclasses know where a block comes from (``NEW`` or a ghost list of theirs, as a small code), how one joins the
    queues, and which one leaves them for it.
    """

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context, **params)
        self._waiting: OrderedDict[int, int] = OrderedDict()

    @abstractmethod
    def _queued_blocks(self) -> int:
        """Number of residents in the queues."""

    @abstractmethod
    def _is_queued(self, block: object) -> bool:
        """Whether a block is in a queue."""

    @abstractmethod
    def _use(self, block: int) -> None:
        """A queued block was used."""

    def _recall(self, block: int) -> int:
        """Where a missing block that was just asked for comes from; it is no ghost any longer."""
        return NEW

    @abstractmethod
    def _join(self, block: int, origin: int) -> None:
        """Put a block into its queue."""

    @abstractmethod
    def _make_room(self, origin: int, pinned: Callable[[int], bool]) -> int:
        """Take a victim out of the queues for a block of that origin; -1 if all queued blocks are pinned."""

    @abstractmethod
    def _drop(self, block: int) -> None:
        """Forget a queued block."""

    def __len__(self) -> int:
        return self._queued_blocks() + len(self._waiting)

    def __contains__(self, block: object) -> bool:
        return block in self._waiting or self._is_queued(block)

    def touch(self, access: BlockAccess) -> None:
        if access.block in self._waiting:
            self._join_all()
        self._use(access.block)

    def renew(self, access: BlockAccess) -> None:
        """Nothing moves, because in these queues every move says that a block was used."""

    def insert(self, access: BlockAccess) -> None:
        self._waiting[access.block] = self._recall(access.block)
        self._join_where_room()

    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        victim = self._make_room(next(iter(self._waiting.values()), NEW), pinned)
        if victim < 0 and self._waiting:
            self._join_all()
            victim = self._make_room(NEW, pinned)
        self._join_where_room()
        return victim

    def remove(self, block: int) -> None:
        if self._waiting.pop(block, None) is None:
            self._drop(block)
        self._join_where_room()

    def _join_where_room(self) -> None:
        while self._waiting and self._queued_blocks() < self.context.capacity_blocks:
            self._join(*self._waiting.popitem(last=False))

    def _join_all(self) -> None:
        while self._waiting:
            self._join(*self._waiting.popitem(last=False))
