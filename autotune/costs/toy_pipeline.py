"""A pipeline small enough to follow by hand: what prefetching the next block is worth.

Blocks 0 to 11 are needed in turn. Step t needs block t, the one before, and in every fourth step the one six before
(all modulo 12), visited in ascending order. All blocks begin on the SSD. The device holds 3 of them, the host 8.
Loading costs 1.0 from the host and 1.5 from the SSD; a step's transfer takes half the sum, its computation takes 1.

A loaded block leaves the host, and is on the device before the victim is chosen: the block whose last use is longest
ago, which may be the loaded one itself, because a use counts only once the block has been loaded. The victim goes to
the host while there is room, else back to the SSD.
"""

from __future__ import annotations

from dataclasses import dataclass, field

N_BLOCKS = 12
_HOST_COST, _SSD_COST = 1.0, 1.5
_COSTS_PER_TRANSFER = 2.0
_COMPUTE = 1.0
_NEVER = -1


@dataclass(slots=True)
class _Tiers:
    """Blocks on the device and on the host; the rest is on the SSD."""

    device_blocks: int
    host_blocks: int
    device: set[int] = field(default_factory=set)
    host: set[int] = field(default_factory=set)
    last_use: dict[int, int] = field(default_factory=dict)
    uses: int = 0

    def use(self, block: int) -> float:
        """Cost of having a block on the device for a computation."""
        cost = self._load(block)
        self.uses += 1
        self.last_use[block] = self.uses
        return cost

    def prefetch(self, block: int) -> float:
        """Cost of having a block on the device ahead of time; it counts as used together with the last one."""
        if block in self.device:
            return 0.0
        cost = self._load(block)
        self.last_use[block] = self.uses
        return cost

    def _load(self, block: int) -> float:
        if block in self.device:
            return 0.0
        cost = _HOST_COST if block in self.host else _SSD_COST
        self.host.discard(block)
        self.device.add(block)
        if len(self.device) > self.device_blocks:
            victim = min(sorted(self.device), key=lambda b: self.last_use.get(b, _NEVER))
            self.device.discard(victim)
            if len(self.host) < self.host_blocks:
                self.host.add(victim)
        return cost


def toy_pipeline(steps: int = 240, *, prefetch: bool, device_blocks: int = 3, host_blocks: int = 8) -> float:
    """Time of all steps: without prefetch transfer and computation add up, with it the longer of the two counts.

    >>> alone, overlapped = toy_pipeline(prefetch=False), toy_pipeline(prefetch=True)
    >>> alone, overlapped, round(alone / overlapped, 2)
    (527.0, 288.0, 1.83)
    """
    tiers = _Tiers(device_blocks, host_blocks)
    total = 0.0
    for step in range(steps):
        cost = sum(tiers.use(block) for block in _needed(step))
        if prefetch:
            cost += tiers.prefetch((step + 1) % N_BLOCKS)
        transfer = cost / _COSTS_PER_TRANSFER
        total += max(_COMPUTE, transfer) if prefetch else _COMPUTE + transfer
    return total


def _needed(step: int) -> list[int]:
    needed = {step % N_BLOCKS, (step - 1) % N_BLOCKS}
    if step % 4 == 0:
        needed.add((step - 6) % N_BLOCKS)
    return sorted(needed)
