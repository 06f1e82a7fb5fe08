"""Which chunks are continued by how many residents, also where a chunk itself is not resident."""

from __future__ import annotations

from collections.abc import Mapping

from autotune_policies.engines.live.resident import Key, Resident


class Chains:
    """Counts of children: a resident keeps its own, and what waits for an absent chunk is kept here.

    Args:
        residents: The residents, live.

    Attributes:
        orphans: Absent chunks that residents continue, and by how many; no more entries than residents.
    """

    def __init__(self, residents: Mapping[Key, Resident]) -> None:
        self.orphans: dict[Key, int] = {}
        self._residents = residents

    def waiting_for(self, key: Key) -> int:
        """Residents that continue a chunk which comes in now."""
        return self.orphans.pop(key, 0)

    def gain(self, parent: Key) -> None:
        """One more resident continues the chunk."""
        above = self._residents.get(parent)
        if above is not None:
            above.children += 1
        else:
            self.orphans[parent] = self.orphans.get(parent, 0) + 1

    def lose(self, parent: Key) -> Resident | None:
        """One resident less continues the chunk; the chunk, if it is resident and that was the last one."""
        above = self._residents.get(parent)
        if above is not None:
            above.children -= 1
            return None if above.children else above
        if self.orphans[parent] > 1:
            self.orphans[parent] -= 1
        else:
            del self.orphans[parent]
        return None

    def leave(self, key: Key, resident: Resident) -> None:
        """A chunk that residents continue has left."""
        self.orphans[key] = resident.children
