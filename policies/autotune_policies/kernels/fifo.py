"""FIFO, compiled: LRU whose queue no use reorders."""

from __future__ import annotations

from numba import njit

from autotune.core.state import TierState
from autotune_policies.kernels import lru

insert = lru.insert
remove = lru.remove
evict = lru.evict


@njit(cache=True)
def touch(s: TierState, b: int) -> None:
    """A resident block was used; nothing moves."""
