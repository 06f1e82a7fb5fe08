"""What a cache policy is: the contract that baselines, the rank rule and plug-ins fulfil.

A policy governs one tier. It knows the residents and decides who leaves; it never moves bytes. For every request the
caller first reports all touches and insertions, deepest block first, and then evicts until the tier fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

NEVER = 2**62


@dataclass(frozen=True, slots=True)
class BlockAccess:
    """One request's access to one block, as a policy sees it.

    Attributes:
        block: Dense id of the block.
        parent: Id of the block that it continues, -1 for the first of a prompt.
        depth_blocks: Position in its chain, 0 for the first.
        time_ns: Time of the access.
        sequence: Counts accesses in the order they are reported; breaks ties.
        next_use: Index of the next request that touches the block, ``NEVER`` if none does; for clairvoyant bounds only.
        request: Index of the request that makes the access.
    """

    block: int
    parent: int
    depth_blocks: int
    time_ns: int
    sequence: int
    next_use: int = NEVER
    request: int = 0


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy by registered name, with its numeric parameters.

    Attributes:
        name: Name in the entry-point group ``autotune.policies``.
        params: ``(parameter, value)`` pairs, sorted by name; those not named keep the policy's defaults.
    """

    name: str
    params: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, name: str, **params: float) -> PolicySpec:
        """A spec from keyword parameters."""
        return cls(name, tuple(sorted((key, float(value)) for key, value in params.items())))


@dataclass(frozen=True, slots=True)
class TierContext:
    """What a policy may know about the tier that it governs.

    Attributes:
        capacity_blocks: Blocks that fit.
        value_s: ``(max_depth + 1,)`` seconds that a hit saves on a block at each depth (recompute; on the host less its
            load).
    """

    capacity_blocks: int
    value_s: tuple[float, ...] = (1.0,)

    def value_at(self, depth_blocks: int) -> float:
        """Seconds saved by a hit at that depth; the deepest known value beyond the table."""
        return self.value_s[min(depth_blocks, len(self.value_s) - 1)]


def nothing_pinned(block: int) -> bool:
    """The usual ``pinned`` argument: every resident may leave."""
    return False


class EvictionPolicy(ABC):
    """Residency of one tier.

    Calls come in this order: for each block of a request, deepest first, :meth:`touch` if it is resident, else
    :meth:`admits` and then either :meth:`insert` or :meth:`refuse`; afterwards :meth:`evict` while the tier is over
    its capacity. Where the nearer tier hands its victims down, :meth:`refuse` reports accesses to blocks that lie
    elsewhere, :meth:`demote` brings a victim in and :meth:`remove` takes out a block that moved up.

    Engines that make room before they store call in another order: :meth:`on_store_miss` for what they are about to
    bring in, :meth:`evict` until that fits, :meth:`insert`; and at the end of the request :meth:`renew` for what it
    brought in and :meth:`touch` for what it found.

    Attributes:
        name: Name in the entry-point group ``autotune.policies``.
        leaf_only: Whether a block stays as long as a resident block continues it.
    """

    name: ClassVar[str]
    leaf_only: bool = False

    def __init__(self, context: TierContext) -> None:
        self.context = context

    @abstractmethod
    def __len__(self) -> int:
        """Number of residents."""

    @abstractmethod
    def __contains__(self, block: object) -> bool:
        """Whether a block is resident."""

    @abstractmethod
    def touch(self, access: BlockAccess) -> None:
        """A resident block was used."""

    def renew(self, access: BlockAccess) -> None:
        """The request that brought a resident block in goes on: it is as recent as this, but was not used again."""
        self.touch(access)

    def on_store_miss(self, accesses: Sequence[BlockAccess]) -> None:  # noqa: B027  most policies learn nothing of it
        """These missing blocks, in prefix order, are about to come in, and room will be made for them first."""

    def admits(self, access: BlockAccess) -> bool:
        """Whether a missing block may become resident; must not change any state."""
        return True

    def admits_demoted(self, access: BlockAccess) -> bool:
        """Whether a missing block that a nearer tier evicts may come in; that is no use of it. Changes no state."""
        return self.admits(access)

    @abstractmethod
    def insert(self, access: BlockAccess) -> None:
        """A missing block became resident."""

    def demote(self, access: BlockAccess) -> None:
        """A missing block became resident because a nearer tier evicted it; that is no use of it."""
        self.insert(access)

    def refuse(self, access: BlockAccess) -> None:  # noqa: B027  most policies remember nothing of it
        """A block that is not resident was asked for and stays out; a policy may remember that."""

    @abstractmethod
    def evict(self, pinned: Callable[[int], bool] = nothing_pinned) -> int:
        """Choose a resident that is not pinned, forget it and return it; -1 if all are pinned."""

    @abstractmethod
    def remove(self, block: int) -> None:
        """Forget a resident block that the tier gave up for a reason other than space."""


@runtime_checkable
class MarginalAdmission(Protocol):
    """What a policy offers to a caller that must know before it copies whether a block outranks the next victim.

    Attributes:
        admits_marginally: Whether such a caller has to ask.
    """

    admits_marginally: bool

    def rank_on_arrival(self, access: BlockAccess) -> int:
        """Rank that a missing block would have if it came in now; changes no state."""

    def next_victim_rank(self, pinned: Callable[[int], bool]) -> int | None:
        """Rank of the block that :meth:`EvictionPolicy.evict` would choose; None if none may leave."""
