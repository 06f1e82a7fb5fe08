"""The link of a CUDA device: pinned memory, a stream per direction, and events instead of waits.

The host never blocks here: compute waits on the device's own stream, so that kernels keep being queued meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from autotune.core.units import MS_PER_S
from autotune_policies.engines.transformers.link import Loaded
from autotune_policies.engines.transformers.master import HostMaster, as_engine, as_stored


class CudaLink:
    """Copies between pinned host memory and a CUDA device beside its compute.

    Args:
        device: The device whose layers these are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loads = torch.cuda.Stream(device)
        self._stores = torch.cuda.Stream(device)
        self._pending: deque[_Timed] = deque()
        self._transfer_s = 0.0
        self._stall_s = 0.0

    def load(self, master: HostMaster) -> _CudaTransfer:
        """Issue the load of all that a layer has on the host."""
        compute = torch.cuda.current_stream(self._device)
        host_keys, host_values = master.contents()
        # Allocated by compute's stream: memory that kernels queued there still read may be handed out again, so the
        # copy waits for what is queued so far. That is also the point in time at which the slot is free.
        keys, values = (torch.empty(part.shape, dtype=part.dtype, device=self._device) for part in master.contents())
        self._loads.wait_stream(compute)
        if master.stored is not None:
            self._loads.wait_event(master.stored)
        begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._loads):
            begun.record()
            keys.copy_(host_keys, non_blocking=True)
            values.copy_(host_values, non_blocking=True)
            done.record()
        for part in (keys, values):
            part.record_stream(self._loads)  # if it is abandoned, its memory waits for the copy
        return _CudaTransfer(self, keys, values, begun, done)

    def store(self, master: HostMaster, keys: torch.Tensor, values: torch.Tensor) -> int:
        """Append new tokens to a layer's master; returns their bytes. A later load of it sees them."""
        new_tokens = int(keys.shape[-2])
        if master.n_tokens + new_tokens > master.capacity_tokens:
            self.settle()  # growing copies what earlier stores have written, and frees memory that loads read
            self._loads.synchronize()
        parts = tuple(as_stored(part).contiguous() for part in (keys, values))
        self._stores.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stores):
            for room, part in zip(master.extend(keys, values), parts, strict=True):
                room.copy_(part, non_blocking=True)
                part.record_stream(self._stores)
            master.stored = torch.cuda.Event()
            master.stored.record()
        return keys.nbytes + values.nbytes

    def settle(self) -> None:
        """Wait until every store is in host memory."""
        self._stores.synchronize()

    def transfer_s(self) -> float:
        """Time for which the link was busy with loads that compute has waited for, as far as their events have come."""
        self._count()
        return self._transfer_s

    def stall_s(self) -> float:
        """Time for which the device's compute waited for them, likewise."""
        self._count()
        return self._stall_s

    def close(self) -> None:
        """Wait for what is under way, so that no copy outlives its memory."""
        self._loads.synchronize()
        self._stores.synchronize()

    def wait_on_device(self, begun: Any, done: Any) -> None:
        """Let compute wait for a load, and remember the events that tell for how long."""
        compute = torch.cuda.current_stream(self._device)
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record(compute)
        compute.wait_event(done)
        after.record(compute)
        self._pending.append(_Timed(begun, done, before, after))
        self._count()

    def _count(self) -> None:
        while self._pending and self._pending[0].after.query():
            timed = self._pending.popleft()
            self._transfer_s += timed.begun.elapsed_time(timed.done) / MS_PER_S
            self._stall_s += timed.before.elapsed_time(timed.after) / MS_PER_S


@dataclass(frozen=True, slots=True)
class _Timed:
    begun: Any
    done: Any
    before: Any
    after: Any


class _CudaTransfer:
    def __init__(self, link: CudaLink, keys: torch.Tensor, values: torch.Tensor, begun: Any, done: Any) -> None:
        self._link = link
        self._keys = keys
        self._values = values
        self._begun = begun
        self._done = done

    @property
    def is_done(self) -> bool:
        return bool(self._done.query())

    def wait(self) -> Loaded:
        self._link.wait_on_device(self._begun, self._done)
        return Loaded(as_engine(self._keys), as_engine(self._values))

    def abandon(self) -> None:
        self._done.synchronize()
