"""What is remembered about chunks that are not on the host, bounded."""

from __future__ import annotations

from collections import OrderedDict


class GhostEntries:
    """Usage of chunks that left or were refused; the one that became a ghost first is forgotten first.

    The same rule as :class:`autotune_policies.ghosts.Ghosts`, for opaque keys and without an object per entry.

    Attributes:
        hits: How often a ghost was asked for again, which is how often keeping it would have paid.

    Args:
        limit: Most entries kept.
    """

    def __init__(self, limit: int) -> None:
        self.hits = 0
        self._limit = limit
        self._usage: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._usage)

    def __contains__(self, key: object) -> bool:
        return key in self._usage

    def get(self, key: bytes) -> tuple[float, int] | None:
        """Decayed accesses and the time of the last one; ``None`` if the chunk is no ghost."""
        return self._usage.get(key)

    def was_used_twice(self, key: bytes) -> bool:
        """Whether the chunk is a ghost that was asked for more than once, as far as that has not faded."""
        known = self._usage.get(key)
        return known is not None and known[0] > 1.0

    def take(self, key: bytes) -> tuple[float, int] | None:
        """The same, of a ghost that is asked for again and is one no longer."""
        known = self._usage.pop(key, None)
        if known is not None:
            self.hits += 1
        return known

    def settle(self, key: bytes) -> tuple[float, int] | None:
        """The same, of a ghost that comes in though nobody asks for it."""
        return self._usage.pop(key, None)

    def put(self, key: bytes, frequency: float, last_ns: int) -> None:
        """Make a chunk the newest ghost, forgetting the oldest where there is no room."""
        if self._limit < 1:
            return
        if len(self._usage) >= self._limit:
            self._usage.popitem(last=False)
        self._usage[key] = (frequency, last_ns)

    def limit_to(self, limit: int) -> None:
        """Change the bound; the oldest are forgotten where there are more."""
        self._limit = limit
        while len(self._usage) > limit:
            self._usage.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._usage.clear()
