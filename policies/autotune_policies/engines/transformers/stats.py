"""What a streaming cache has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.streaming import overlap_frac


@dataclass(frozen=True, slots=True)
class StreamingStats:
    """A snapshot of a cache's counters.

    Attributes:
        n_resident: Layers, of those that can be streamed, that stay on the device.
        n_streamed: Layers that are streamed.
        prefetch_depth: d, in streamed layers.
        steps: Forward passes seen, those of the prompt included.
        loads: Loads issued.
        loaded_bytes: Host to device, of all loads issued.
        stored_bytes: Device to host.
        dropped_loads: Loads that were issued and never computed on, such as those that a crop made stale.
        dropped_bytes: Their bytes.
        prefetch_hits: Layers that had arrived when compute needed them.
        prefetch_late: Layers that were still on their way.
        prefetch_misses: Layers whose load was only issued when compute needed them.
        compute_s: Time between layers in which compute did not wait for loads.
        transfer_s: Time for which the link was busy with loads that were computed on.
        wait_s: Time for which compute waited for loads.
        slots: Slots held now.
        peak_slots: The most that were held at a time; never above d + 1.
        device_bytes: KV bytes on the device now: resident layers, and slots.
        host_bytes: Host memory that the masters take.
    """

    n_resident: int
    n_streamed: int
    prefetch_depth: int
    steps: int = 0
    loads: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0
    dropped_loads: int = 0
    dropped_bytes: int = 0
    prefetch_hits: int = 0
    prefetch_late: int = 0
    prefetch_misses: int = 0
    compute_s: float = 0.0
    transfer_s: float = 0.0
    wait_s: float = 0.0
    slots: int = 0
    peak_slots: int = 0
    device_bytes: int = 0
    host_bytes: int = 0

    @property
    def overlap_frac(self) -> float:
        """beta: the hidden part of what could be hidden, 0 to 1; 1 where nothing was loaded."""
        return overlap_frac(self.compute_s, self.transfer_s, self.wait_s)
