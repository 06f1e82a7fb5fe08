"""Seconds and bytes of one engine on one machine: the numbers that every decision is computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.value import prefill_s


@dataclass(frozen=True, slots=True)
class CostProfile:
    """Coefficients of the cost model; where they come from is up to whoever makes one.

    Attributes:
        prefill_linear_s: Seconds per prompt token.
        prefill_quadratic_s: Seconds per pair of tokens that attend to each other.
        kv_bytes_per_token: Bytes of KV per token.
        load_bytes_per_s: Host-to-device bandwidth.
        load_latency_s: Fixed seconds per load.
        store_bytes_per_s: Device-to-host bandwidth.
        store_latency_s: Fixed seconds per store.
        disk_bytes_per_s: Disk-to-host bandwidth.
        disk_latency_s: Fixed seconds per read from disk.
        store_exposed_frac: Share of store seconds that delays requests.
        source: Where the figures come from, in words.
    """

    prefill_linear_s: float
    prefill_quadratic_s: float
    kv_bytes_per_token: int
    load_bytes_per_s: float
    load_latency_s: float
    store_bytes_per_s: float
    store_latency_s: float
    disk_bytes_per_s: float
    disk_latency_s: float
    store_exposed_frac: float
    source: str

    def prefill_s(self, n_tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Seconds to prefill prompts of ``n_tokens`` from nothing, elementwise."""
        tokens = np.asarray(n_tokens, dtype=np.float64)
        return self.prefill_linear_s * tokens + self.prefill_quadratic_s * tokens * (tokens + 1.0) * 0.5

    def block_recompute_s(self, depth_blocks: int, block_tokens: int) -> float:
        """Seconds to compute the block at ``depth_blocks`` (0 = first), given that its prefix is present."""
        start, end = depth_blocks * block_tokens, (depth_blocks + 1) * block_tokens
        linear, quadratic = self.prefill_linear_s, self.prefill_quadratic_s
        return prefill_s(end, linear, quadratic) - prefill_s(start, linear, quadratic)

    def block_load_s(self, block_tokens: int) -> float:
        """Seconds that one block adds to a load from the host (bandwidth only; the latency is per load)."""
        return block_tokens * self.kv_bytes_per_token / self.load_bytes_per_s
