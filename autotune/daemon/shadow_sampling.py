"""Which requests shadows see: whole chains, chosen by a hash, so that a sampled cache behaves like the whole one.

A chain is named by its first block that is not shared: the one after the deepest block in which many chains part, such
as the end of a common system prompt. All requests of a conversation then fall on the same side.
"""

from __future__ import annotations

from collections.abc import Sequence

HUB_CHILDREN = 8  # chains that part in a block before it counts as shared
_DEEPEST = 256  # blocks of a prompt that are looked at for shared ones
_REMEMBERED = 20_000  # blocks whose children are known, in each of two generations
_MASK = 2**64 - 1
N_GROUPS = 32


class ChainSampler:
    """Tells whether a request is in the sample, and to which of a few groups of chains it belongs.

    Args:
        frac: Share of chains in the sample; may be lowered, and the sample then is a part of the one before.
        salt: Draws another sample.
    """

    def __init__(self, frac: float, salt: int = 0) -> None:
        self.frac = frac
        self.salt = salt
        self._young: dict[int, tuple[int, ...]] = {}
        self._old: dict[int, tuple[int, ...]] = {}

    def place(self, blocks: Sequence[int]) -> int:
        """Where a request with these blocks falls: its chain's hash, for :meth:`holds` and :func:`group_of`."""
        shared = -1
        for depth in range(min(len(blocks) - 1, _DEEPEST)):
            if self._parts(blocks[depth], blocks[depth + 1]):
                shared = depth
        return mixed(blocks[min(shared + 1, len(blocks) - 1)] ^ mixed(self.salt)) if blocks else 0

    def holds(self, place: int) -> bool:
        """Whether a chain with that hash is in the sample."""
        return (place >> 11) < self.frac * 2.0**53

    def _parts(self, block: int, child: int) -> bool:
        """Whether many chains part in a block; takes note of a child."""
        children = self._young.get(block)
        if children is None:
            children = self._old.get(block, ())
            self._keep(block, children)
        if len(children) < HUB_CHILDREN and child not in children:
            children = (*children, child)
            self._young[block] = children
        return len(children) >= HUB_CHILDREN

    def _keep(self, block: int, children: tuple[int, ...]) -> None:
        if len(self._young) >= _REMEMBERED:
            self._old, self._young = self._young, {}
        self._young[block] = children


def group_of(place: int) -> int:
    """One of ``N_GROUPS`` groups of chains, whose spread tells how much the choice of chains matters."""
    return place % N_GROUPS


def mixed(number: int) -> int:
    """64 well mixed bits. Source: the finaliser of SplitMix64, Steele, Lea and Flood, OOPSLA 2014, figure 17."""
    x = (number + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def sampled_frac(capacities: Sequence[int], least_blocks: int, most_blocks: int) -> float:
    """Share of chains to begin with: a power of two, as large as a bound on memory allows.

    Args:
        capacities: Blocks of every tier that exists.
        least_blocks: What the smallest tier holds at least, unless the whole of it is less.
        most_blocks: What all tiers together hold at most, where the other bound leaves the choice.
    """
    frac = 1.0
    while frac * sum(capacities) > most_blocks and frac * 0.5 * min(capacities) >= least_blocks:
        frac *= 0.5
    return frac
