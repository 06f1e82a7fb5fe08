"""Whether a message is the next one, and what is missing if it is not."""

from __future__ import annotations

import zlib
from enum import Enum


class Link(Enum):
    """How a live message follows what was applied."""

    NEXT = "next"
    DUPLICATE = "duplicate"  # a replay has brought it already
    GAP = "gap"
    RESTART = "restart"  # of another stream: the numbers began anew


class SequenceTracker:
    """Follows the numbers of one publisher, live ones and replayed ones.

    A publisher's live numbers only grow. One that does not is of another stream; one that does and was applied before
    has come by a replay.

    Attributes:
        applied: Number of the last message applied, -1 before the first.
    """

    def __init__(self) -> None:
        self.applied = -1
        self._live = -1
        self._name = b""
        self._digest = 0

    def see(self, sequence: int, name: bytes = b"") -> Link:
        """What a live message with this number is."""
        is_other = name != self._name and self._live >= 0
        if is_other or sequence <= self._live:
            self.restart()
            self._live, self._name = sequence, name
            return Link.RESTART
        self._live, self._name = sequence, name
        if sequence <= self.applied:
            return Link.DUPLICATE
        return Link.NEXT if sequence == self.applied + 1 else Link.GAP

    def apply(self, sequence: int, payload: bytes) -> None:
        """Take note that a message was applied."""
        self.applied = sequence
        self._digest = zlib.crc32(payload)

    def is_last(self, sequence: int, payload: bytes) -> bool:
        """Whether this is the message applied last; proof that a publisher is still the same."""
        return sequence == self.applied and zlib.crc32(payload) == self._digest

    def restart(self) -> None:
        """Forget everything: what comes is another stream."""
        self.applied = self._live = -1
        self._name, self._digest = b"", 0
