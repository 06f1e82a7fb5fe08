"""What a simulation counted, per request, and the sums that people ask for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig

Column = npt.NDArray[np.int32]
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the measured requests; the names are those of ``simulate --json``.

    Attributes:
        requests: Measured requests.
        accesses: Block accesses.
        device_hit_blocks: Blocks found on the device.
        host_hit_blocks: Blocks loaded from the host.
        disk_hit_blocks: Blocks loaded from disk.
        computed_blocks: Blocks computed.
        prompt_tokens: Tokens asked for.
        hit_tokens: Tokens that were not computed.
        recompute_s: Prefill seconds spent on misses.
        recompute_saved_s: Prefill seconds that hits saved.
        load_s: Seconds of loads from host and disk.
        store_exposed_s: Store seconds that delayed requests.
        net_seconds_saved: ``recompute_saved_s - load_s - store_exposed_s``.
        stored_bytes: Bytes copied from the device to the host.
        loaded_bytes: Bytes copied to the device from the host and the disk.
        disk_stored_bytes: Bytes copied from the host to the disk.
        evicted_device_blocks: Blocks that left the device.
        evicted_host_blocks: Blocks that left the host.
        oversized_requests: Requests larger than the device (service timing).
        waited_s: Seconds that requests waited for space (service timing).
    """

    requests: int
    accesses: int
    device_hit_blocks: int
    host_hit_blocks: int
    disk_hit_blocks: int
    computed_blocks: int
    prompt_tokens: int
    hit_tokens: int
    recompute_s: float
    recompute_saved_s: float
    load_s: float
    store_exposed_s: float
    net_seconds_saved: float
    stored_bytes: int
    loaded_bytes: int
    disk_stored_bytes: int
    evicted_device_blocks: int
    evicted_host_blocks: int
    oversized_requests: int
    waited_s: float

    @property
    def cost_s(self) -> float:
        """Critical-path seconds: recompute + load + exposed store."""
        return self.recompute_s + self.load_s + self.store_exposed_s

    def as_dict(self) -> dict[str, int | float]:
        """Names and values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CacheResult:
    """Per-request outcome of one simulation.

    Attributes:
        trace: The trace that ran (without partial blocks if the engine drops them).
        config: The simulated engine.
        costs: The cost model.
        device_hit: ``(n_requests,)`` blocks found on the device; likewise the other int32 columns.
        host_hit: Blocks loaded from the host.
        disk_hit: Blocks loaded from disk.
        stored: Blocks stored to the host.
        stored_disk: Blocks stored to disk.
        evicted_device: Blocks that left the device.
        evicted_host: Blocks that left the host.
        oversized: 1 where a request is larger than the device.
        wait_s: ``(n_requests,)`` seconds waited for space.
    """

    trace: Trace
    config: CacheConfig
    costs: CostProfile
    device_hit: Column
    host_hit: Column
    disk_hit: Column
    stored: Column
    stored_disk: Column
    evicted_device: Column
    evicted_host: Column
    oversized: Column
    wait_s: Seconds

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.trace.block_tokens * self.costs.kv_bytes_per_token

    def hit_blocks(self) -> Column:
        """``(n_requests,)`` blocks found on any tier."""
        return self.device_hit + self.host_hit + self.disk_hit

    def hit_tokens(self) -> npt.NDArray[np.int64]:
        """``(n_requests,)`` prompt tokens that need no prefill."""
        limit = np.maximum(self.trace.input_tokens - self.config.last_tokens, 0)
        return np.minimum(self.hit_blocks().astype(np.int64) * self.trace.block_tokens, limit)

    def recompute_s(self) -> Seconds:
        """``(n_requests,)`` prefill seconds spent on what was not found."""
        return self.costs.prefill_s(self.trace.input_tokens) - self.recompute_saved_s()

    def recompute_saved_s(self) -> Seconds:
        """``(n_requests,)`` prefill seconds that hits saved."""
        return self.costs.prefill_s(self.hit_tokens())

    def load_s(self) -> Seconds:
        """``(n_requests,)`` seconds of loads; what comes from disk crosses the host link too."""
        loaded = self.host_hit + self.disk_hit
        link = self.costs.load_latency_s + loaded * (self.block_bytes / self.costs.load_bytes_per_s)
        disk = self.costs.disk_latency_s + self.disk_hit * (self.block_bytes / self.costs.disk_bytes_per_s)
        return np.where(loaded > 0, link, 0.0) + np.where(self.disk_hit > 0, disk, 0.0)

    def store_s(self) -> Seconds:
        """``(n_requests,)`` seconds of stores on the device-to-host link, hidden or not."""
        seconds = self.costs.store_latency_s + self.stored * (self.block_bytes / self.costs.store_bytes_per_s)
        return np.where(self.stored > 0, seconds, 0.0)

    def store_exposed_s(self) -> Seconds:
        """``(n_requests,)`` store seconds that delayed a request."""
        return self.store_s() * self.costs.store_exposed_frac

    def cost_s(self) -> Seconds:
        """``(n_requests,)`` critical-path seconds: recompute + load + exposed store."""
        return self.recompute_s() + self.load_s() + self.store_exposed_s()

    def totals(self, start: int = 0, stop: int | None = None) -> Totals:
        """Sums over requests ``start`` to ``stop`` (exclusive)."""
        part = slice(start, stop)
        accesses = int(np.diff(self.trace.block_offsets)[part].sum())
        device, host, disk = (int(c[part].sum()) for c in (self.device_hit, self.host_hit, self.disk_hit))
        seconds = (self.recompute_saved_s(), self.load_s(), self.store_exposed_s())
        saved, load, store = (float(column[part].sum()) for column in seconds)
        return Totals(
            requests=len(self.device_hit[part]),
            accesses=accesses,
            device_hit_blocks=device,
            host_hit_blocks=host,
            disk_hit_blocks=disk,
            computed_blocks=accesses - device - host - disk,
            prompt_tokens=int(self.trace.input_tokens[part].sum()),
            hit_tokens=int(self.hit_tokens()[part].sum()),
            recompute_s=float(self.recompute_s()[part].sum()),
            recompute_saved_s=saved,
            load_s=load,
            store_exposed_s=store,
            net_seconds_saved=saved - load - store,
            stored_bytes=int(self.stored[part].sum()) * self.block_bytes,
            loaded_bytes=(host + disk) * self.block_bytes,
            disk_stored_bytes=int(self.stored_disk[part].sum()) * self.block_bytes,
            evicted_device_blocks=int(self.evicted_device[part].sum()),
            evicted_host_blocks=int(self.evicted_host[part].sum()),
            oversized_requests=int(self.oversized[part].sum()),
            waited_s=float(self.wait_s[part].sum()),
        )
