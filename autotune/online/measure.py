"""What the loop measures on a simulated engine."""

from __future__ import annotations

import numpy as np

from autotune.core.history import E_BLOCKS, E_GAP_NS, E_ROW, H_EVENTS, H_ROWS, W_BLOCKS, W_IDLE_NS, History
from autotune.core.state import CAPACITY
from autotune.core.types import Arm
from autotune.core.units import NS_PER_S
from autotune.costs.reuse import Rows
from autotune.sim.columns import DEVICE_HIT, DISK_HIT, HOST_HIT, STORED
from autotune.sim.learned import LearnedCache


def rows_of(history: History) -> Rows:
    """The newest rows whose features are still there, and what became of them, oldest first."""
    n_rows, n_events = int(history.ints[H_ROWS]), int(history.ints[H_EVENTS])
    window = len(history.features)
    first = max(0, n_rows - window)
    oldest = first % window  # where the window begins in the ring
    events = history.events[np.flatnonzero(history.events[:n_events, E_ROW] >= first)]
    return Rows(
        features=np.concatenate([history.features[oldest : n_rows - first], history.features[:oldest]]),
        time_s=history.rows[first:n_rows, W_IDLE_NS] / NS_PER_S,
        n_blocks=history.rows[first:n_rows, W_BLOCKS].astype(np.int32),
        event_row=(events[:, E_ROW] - first).astype(np.int32),
        event_gap_s=events[:, E_GAP_NS] / NS_PER_S,
        event_blocks=events[:, E_BLOCKS].astype(np.int32),
    )


class Turnovers:
    """How fast LRU replaces the content of device and host, from the counts of its shadow so far.

    Args:
        cache: The simulated engine; a sampled shadow has as large a share of the capacities as it sees of the chains.
    """

    def __init__(self, cache: LearnedCache) -> None:
        self._cache = cache
        self._lengths = np.diff(cache.trace.block_offsets)
        self._position = self._missed = self._found_below = 0

    def seconds(self) -> tuple[float, float]:
        """Seconds in which the device's content is replaced once, and the host's; 0 before LRU filled the tier."""
        cache = self._cache
        lru, new = cache.shadow(Arm.LRU), slice(self._position, cache.position)
        self._position = cache.position
        self._missed += int(self._lengths[new][cache.seen[new] > 0].sum()) - int(lru.out[new, DEVICE_HIT].sum())
        self._found_below += int(lru.out[new, HOST_HIT].sum()) + int(lru.out[new, DISK_HIT].sum())
        stored = self._missed - self._found_below
        device, host = int(lru.device.ints[CAPACITY]), int(lru.host.ints[CAPACITY])
        return (
            cache.now_s() * device / self._missed if self._missed > device else 0.0,
            cache.now_s() * host / stored if stored > host else 0.0,
        )


def cost_s(cache: LearnedCache, arm: Arm, start: int) -> float:
    """Critical-path seconds that a shadow spent on the requests from ``start`` on."""
    part = slice(start, cache.position)
    out, costs = cache.shadow(arm).out[part], cache.costs
    tokens = cache.trace.input_tokens[part]
    block_bytes = cache.trace.block_tokens * costs.kv_bytes_per_token
    loaded = out[:, HOST_HIT].astype(np.int64) + out[:, DISK_HIT]
    found = np.minimum((out[:, DEVICE_HIT] + loaded) * cache.trace.block_tokens, tokens)
    recompute_s = costs.prefill_s(tokens) - costs.prefill_s(found)
    load_s = np.where(loaded > 0, costs.load_latency_s + loaded * (block_bytes / costs.load_bytes_per_s), 0.0)
    stored = out[:, STORED]
    store_s = np.where(stored > 0, costs.store_latency_s + stored * (block_bytes / costs.store_bytes_per_s), 0.0)
    seen = cache.seen[part] > 0
    return float((recompute_s + load_s + store_s * costs.store_exposed_frac)[seen].sum())
