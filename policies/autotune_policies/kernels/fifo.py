"""FIFO, compiled: LRU whose queue no use reorders."""

from __future__ import annotations

from autotune.core.state import TierState
from autotune_policies.kernels import lru
from autotune_policies.kernels.jit import compiled

insert = lru.insert
remove = lru.remove
evict = lru.evict


@compiled
def touch(s: TierState, b: int) -> None:
    """A resident block was used; nothing moves."""
