"""All residents in one list that can be gone through in slices while residents come and go."""

from __future__ import annotations

from collections.abc import Mapping

from autotune_policies.engines.live.resident import Key, Resident


class Slots:
    """A list without gaps: the last one fills the slot of one that leaves.

    Whoever goes through it from the end to the start meets everybody that was there when it began and still is, and
    somebody perhaps twice: whatever moves, moves from the part that was gone through to a place before it or within it.

    Attributes:
        keys: The residents.
    """

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def add(self, key: Key, resident: Resident) -> None:
        """A resident came in."""
        resident.slot = len(self.keys)
        self.keys.append(key)

    def take_out(self, resident: Resident, residents: Mapping[Key, Resident]) -> None:
        """A resident has left; the others are still there."""
        last = self.keys.pop()
        if resident.slot < len(self.keys):
            self.keys[resident.slot] = last
            residents[last].slot = resident.slot
