"""What KV events of an engine without the plug-in tell of accesses: stores, and nothing of hits."""

from __future__ import annotations

from typing import NamedTuple


class StoredRun(NamedTuple):
    """Blocks that came to lie on the device together, as one event told.

    Device hits emit no event, so these are no accesses: what was found is missing.

    Attributes:
        time_s: Seconds since the start of the epoch.
        epoch: Counts restarts, resets and losses; runs of different epochs are never joined.
        block_ids: ``(n_blocks,)`` numbers of 64 bits in prefix order.
        parent: The block that the first of them continues; ``None`` if it begins a prompt or that is unknown.
        tokens: Tokens that they stand for; 0 = unknown.
    """

    time_s: float
    epoch: int
    block_ids: tuple[int, ...]
    parent: int | None
    tokens: int
