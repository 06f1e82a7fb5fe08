"""The way between host and device: what a link has to do, and the one that a CPU has."""

from __future__ import annotations

import queue
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import torch

from autotune.core.clock import Clock, SystemClock
from autotune_policies.engines.transformers.master import HostMaster, as_engine, as_stored


@dataclass(frozen=True, slots=True)
class Loaded:
    """A layer's KV on the device.

    Attributes:
        keys: Shaped ``(batch, heads, tokens, width)``, as Transformers has them.
        values: Likewise.
    """

    keys: torch.Tensor
    values: torch.Tensor


class Transfer(Protocol):
    """A load that has been issued."""

    @property
    def is_done(self) -> bool:
        """Whether it has arrived."""

    def wait(self) -> Loaded:
        """Let compute wait for it, and hand it over.

        Raises:
            Exception: whatever went wrong on the way.
        """

    def abandon(self) -> None:
        """Wait until nothing of it is under way any more; its result is not wanted."""


class Link(Protocol):
    """Moves layers; loads are served in the order in which they are issued."""

    def load(self, master: HostMaster) -> Transfer:
        """Issue the load of all that a layer has on the host."""

    def store(self, master: HostMaster, keys: torch.Tensor, values: torch.Tensor) -> int:
        """Append new tokens to a layer's master; returns their bytes. A later load of it sees them."""

    def settle(self) -> None:
        """Wait until every store is in host memory."""

    def transfer_s(self) -> float:
        """Time for which the link was busy with loads that compute has waited for, so far."""

    def stall_s(self) -> float:
        """Time for which compute waited for them, so far."""

    def close(self) -> None:
        """Stop; what is under way is dropped."""


class ThreadLink:
    """A worker thread that copies within host memory, at the pace of a simulated link if one is given.

    On a CPU there is no link: the copies are real, and without a simulated pace they take as long as the memory does.
    With one, a load takes bytes / pace, in order, and stores take the other direction at the same pace: a layer's load
    begins when its store has ended. Only waits for the simulated link look at the clock.

    Args:
        link_bytes_per_s: Pace of the simulated link; None = that of the memory.
        clock: Time.
    """

    def __init__(self, link_bytes_per_s: float | None = None, clock: Clock | None = None) -> None:
        self._link_bytes_per_s = link_bytes_per_s
        self._clock = clock or SystemClock()
        self._store_free_s = 0.0
        self._transfer_s = 0.0
        self._stall_s = 0.0
        self._jobs: queue.SimpleQueue[_ThreadTransfer | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        # The thread knows its queue and not this object, so that an abandoned cache can be collected and ends it.
        worker = _Worker(self._jobs, self._closing, link_bytes_per_s, self._clock)
        self._thread = threading.Thread(target=worker.run, name="kv-autotune-stream", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._jobs, self._closing)

    def load(self, master: HostMaster) -> _ThreadTransfer:
        """Issue the load of all that a layer has on the host."""
        transfer = _ThreadTransfer(self, master, self._clock.monotonic_s())
        self._jobs.put(transfer)
        return transfer

    def take(self, result: Future[_Served]) -> Loaded:
        """Wait for a load and count its times."""
        begin_s = self._clock.monotonic_s()
        served = result.result()
        self._stall_s += self._clock.monotonic_s() - begin_s
        self._transfer_s += served.transfer_s
        return served.loaded

    def store(self, master: HostMaster, keys: torch.Tensor, values: torch.Tensor) -> int:
        """Append new tokens to a layer's master; returns their bytes. A later load of it sees them."""
        room_keys, room_values = master.extend(keys, values)
        room_keys.copy_(as_stored(keys))
        room_values.copy_(as_stored(values))
        moved_bytes = keys.nbytes + values.nbytes
        if self._link_bytes_per_s:
            begin_s = max(self._store_free_s, self._clock.monotonic_s())
            self._store_free_s = begin_s + moved_bytes / self._link_bytes_per_s
            master.stored = self._store_free_s
        return moved_bytes

    def settle(self) -> None:
        """Wait until every store is in host memory: here they are when :meth:`store` returns."""

    def transfer_s(self) -> float:
        """Time for which the link was busy with loads that compute has waited for, so far."""
        return self._transfer_s

    def stall_s(self) -> float:
        """Time for which compute waited for them, so far."""
        return self._stall_s

    def close(self) -> None:
        """Stop; what is under way is dropped."""
        self._finalizer()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class _Served:
    loaded: Loaded
    transfer_s: float


class _ThreadTransfer:
    def __init__(self, link: ThreadLink, master: HostMaster, issued_s: float) -> None:
        self.master = master
        self.issued_s = issued_s
        self.result: Future[_Served] = Future()
        self._link = link

    @property
    def is_done(self) -> bool:
        return self.result.done()

    def wait(self) -> Loaded:
        return self._link.take(self.result)

    def abandon(self) -> None:
        if not self.result.cancel():
            self.result.exception()  # waits; an error of a load that nobody wants concerns nobody


class _Worker:
    """What the thread does: one load after the other."""

    def __init__(
        self,
        jobs: queue.SimpleQueue[_ThreadTransfer | None],
        closing: threading.Event,
        link_bytes_per_s: float | None,
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._closing = closing
        self._link_bytes_per_s = link_bytes_per_s
        self._clock = clock
        self._free_s = 0.0

    def run(self) -> None:
        """Serve loads until the link closes."""
        while (job := self._jobs.get()) is not None:
            if not job.result.set_running_or_notify_cancel():
                continue
            try:
                job.result.set_result(self._serve(job))
            except BaseException as error:  # raised again where the layer is waited for
                job.result.set_exception(error)
            del job

    def _serve(self, job: _ThreadTransfer) -> _Served:
        picked_s = self._clock.monotonic_s()
        with torch.no_grad():
            keys, values = (as_engine(part.clone()) for part in job.master.contents())
        if self._link_bytes_per_s is None:
            return _Served(Loaded(keys, values), self._clock.monotonic_s() - picked_s)
        begin_s = max(self._free_s, job.issued_s, job.master.stored or 0.0)
        transfer_s = (keys.nbytes + values.nbytes) / self._link_bytes_per_s
        self._sleep_until(begin_s + transfer_s)
        self._free_s = begin_s + transfer_s
        return _Served(Loaded(keys, values), transfer_s)

    def _sleep_until(self, end_s: float) -> None:
        while not self._closing.is_set() and (left_s := end_s - self._clock.monotonic_s()) > 0.0:
            self._closing.wait(left_s)


def _stop(jobs: queue.SimpleQueue[_ThreadTransfer | None], closing: threading.Event) -> None:
    closing.set()
    jobs.put(None)
