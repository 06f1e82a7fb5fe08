"""A chunk on the host, as the index keeps it."""

from __future__ import annotations

from autotune.core.learned.runs import PastRequest, Run

Key = bytes
Entry = tuple[int, int, Key]  # rank, sequence, chunk

IN_USE = Run(PastRequest(0, 0, 0), 0, 0)
"""Stands for the run of a chunk whose request has not finished."""


class Resident:
    """A chunk on the host, and its place in the order.

    Attributes:
        parent: The chunk that it continues, resident or not; ``None`` for the first of a prompt.
        depth: Position in its chain, in chunks.
        children: Residents that continue it.
        evictable: Whether it is resident and no copy from or to it is in flight.
        frequency: Decayed accesses at ``last_ns``.
        last_ns: Time of the last access or renewal.
        rank: What it is ordered by, as of then.
        sequence: Number of that access; breaks ties.
        version: Version of the rules that ``rank`` was computed by.
        entry: Its live heap entry, at most ``(rank, sequence)``; ``None`` while it is no candidate.
        next_entry: Its entry under rules that are being prepared.
        run: The run that it stands in, for a learned rule; ``None`` = nothing is remembered of it.
        is_copy: Whether the device holds it too, as far as has been seen.
        slot: Its place in the list of all residents.
    """

    __slots__ = (
        "children",
        "depth",
        "entry",
        "evictable",
        "frequency",
        "is_copy",
        "last_ns",
        "next_entry",
        "parent",
        "rank",
        "run",
        "sequence",
        "slot",
        "version",
    )

    def __init__(self, parent: Key | None, depth: int, children: int, frequency: float, now_ns: int) -> None:
        self.parent = parent
        self.depth = depth
        self.children = children
        self.evictable = False
        self.frequency = frequency
        self.last_ns = now_ns
        self.rank = 0
        self.sequence = 0
        self.version = 0
        self.entry: Entry | None = None
        self.next_entry: Entry | None = None
        self.run: Run | None = None
        self.is_copy = False
        self.slot = 0

    def may_leave(self, copies_leave_first: bool) -> bool:
        """By pins and by the leaf rule; what continues a copy that is to leave first hangs on the device's chunk."""
        return self.evictable and (not self.children or (self.is_copy and copies_leave_first))
