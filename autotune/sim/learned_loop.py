"""The tiered cache under a learned policy, compiled: the live cache and its shadows, request by request.

All sides see the same requests at the same moments, those of the live one, and share the blocks' past. So a shadow
tells what another policy would have made of what really happened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.history import R_START_NS, History
from autotune.core.reuse.tables import ModelArrays
from autotune.core.state import CAPACITY, SEQUENCE, TierState
from autotune.sim.columns import OVERSIZED
from autotune.sim.loop import Rules, become_idle, lookup, set_context, shrink_device, shrink_host
from autotune.sim.service import busy_after, pin, pop, push, service_ns, still_homeless, unpin
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_compiled = _kernels.compiled
_observe = _kernels.observe
_as_int64 = _kernels.as_int64

# Entries of ``clock`` (int64).
C_NOW_NS, C_RUNNING, C_BUSY = range(3)
N_CLOCK = 3


class Side(NamedTuple):
    """One cache: the live one, or a shadow.

    Attributes:
        device: State of the device tier.
        host: State of the host tier.
        disk: State of the disk tier.
        out: ``(n_requests, N_COLUMNS)`` int32 result.
        reserved: ``(1,)`` int64 blocks of running requests that no resident holds.
        takes: ``(n_requests,)`` uint8: whether it sees a request.
        rules: Engine semantics and costs.
    """

    device: TierState
    host: TierState
    disk: TierState
    out: npt.NDArray[np.int32]
    reserved: npt.NDArray[np.int64]
    takes: npt.NDArray[np.uint8]
    rules: Rules


Shadows = tuple[Side, ...]


@_compiled
def _idle(stream: Stream, side: Side, r: int, now_ns: int, reserved: int, none: npt.NDArray[np.int64]) -> None:
    become_idle(stream, r, now_ns, reserved, side.device, side.host, side.disk, side.rules, none, side.out)


@_compiled
def _look(stream: Stream, side: Side, r: int) -> None:
    lookup(stream, r, side.device, side.host, side.disk, side.rules, side.out)


@_kernels.entry
def run_learned_instant(
    stream: Stream,
    live: Side,
    shadows: Shadows,
    history: History,
    model: ModelArrays,
    none: npt.NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    """Requests ``start`` to ``stop``; blocks become idle the moment that the request arrives.

    Args:
        stream: The trace's columns.
        live: The cache that counts.
        shadows: What other policies would have made of it.
        history: The blocks' past, with room for as many rows as there are accesses.
        model: The reuse model in force.
        none: ``(0,)``; a learned policy does not know the future.
        start: First request.
        stop: One past the last request.
    """
    for r in range(start, stop):
        now_ns = stream.arrival_ns[r]
        _look(stream, live, r)
        for shadow in shadows:
            if shadow.takes[r]:
                _look(stream, shadow, r)
        _observe(history, model, stream.ids, stream.offsets, r, now_ns, now_ns)
        _idle(stream, live, r, now_ns, _as_int64(0), none)
        for shadow in shadows:
            if shadow.takes[r]:
                _idle(stream, shadow, r, now_ns, _as_int64(0), none)


@_compiled
def _begin(stream: Stream, side: Side, r: int, now_ns: int, none: npt.NDArray[np.int64]) -> None:
    """A request starts: what it finds, and the room that it takes."""
    _look(stream, side, r)
    side.reserved[0] += pin(stream, r, side.device)
    set_context(side.device, now_ns, r)
    if side.host.ints[CAPACITY] > 0:
        set_context(side.host, now_ns, r)
    if side.disk.ints[CAPACITY] > 0:
        set_context(side.disk, now_ns, r)
    since = side.host.ints[SEQUENCE]
    shrink_device(side.device, side.host, side.reserved[0], r, side.rules, none, side.out)
    shrink_host(side.host, side.disk, r, since, none, side.out)


@_compiled
def _end(stream: Stream, side: Side, r: int, now_ns: int, none: npt.NDArray[np.int64]) -> int:
    """A request finishes: its blocks become idle; returns how many no request holds any more."""
    idle, homeless = unpin(stream, r, side.device)
    _idle(stream, side, r, now_ns, side.reserved[0] - homeless, none)
    side.reserved[0] += still_homeless(stream, r, side.device) - homeless
    return idle


@_compiled
def _finish_next(
    stream: Stream,
    live: Side,
    shadows: Shadows,
    history: History,
    model: ModelArrays,
    none: npt.NDArray[np.int64],
    clock: npt.NDArray[np.int64],
    finish_ns: npt.NDArray[np.int64],
    running: npt.NDArray[np.int64],
) -> None:
    """The running request that is done first ends on all sides."""
    done = pop(finish_ns, running, clock[C_RUNNING])
    clock[C_RUNNING] -= 1
    now_ns = finish_ns[done]
    _observe(history, model, stream.ids, stream.offsets, done, history.requests[done, R_START_NS], now_ns)
    clock[C_BUSY] -= _end(stream, live, done, now_ns, none)
    for shadow in shadows:
        if shadow.takes[done]:
            _end(stream, shadow, done, now_ns, none)


@_kernels.entry
def run_learned_service(
    stream: Stream,
    live: Side,
    shadows: Shadows,
    history: History,
    model: ModelArrays,
    none: npt.NDArray[np.int64],
    clock: npt.NDArray[np.int64],
    wait_ns: npt.NDArray[np.int64],
    finish_ns: npt.NDArray[np.int64],
    running: npt.NDArray[np.int64],
    start: int,
    stop: int,
    to_the_end: bool,
) -> None:
    """Requests ``start`` to ``stop``; blocks are pinned until their request finishes and charged to the device.

    Args:
        stream: The trace's columns.
        live: The cache that counts; its hits say how long a request runs.
        shadows: What other policies would have made of it.
        history: The blocks' past, with room for the rows of all that may finish.
        model: The reuse model in force.
        none: ``(0,)``.
        clock: ``(N_CLOCK,)`` int64, carried from call to call.
        wait_ns: ``(n_requests,)`` int64 result: time from arrival to start.
        finish_ns: ``(n_requests,)`` int64 result: end of decode.
        running: ``(n_requests,)`` int64 heap of running requests, carried from call to call.
        start: First request.
        stop: One past the last request.
        to_the_end: Whether what still runs finishes too.
    """
    capacity = live.device.ints[CAPACITY]
    for r in range(start, stop):
        clock[C_NOW_NS] = max(clock[C_NOW_NS], stream.arrival_ns[r])
        needed = busy_after(stream, r, live.device, clock[C_BUSY])
        while clock[C_RUNNING] > 0 and (finish_ns[running[0]] <= clock[C_NOW_NS] or needed > capacity):
            clock[C_NOW_NS] = max(clock[C_NOW_NS], finish_ns[running[0]])
            _finish_next(stream, live, shadows, history, model, none, clock, finish_ns, running)
            needed = busy_after(stream, r, live.device, clock[C_BUSY])
        now_ns = clock[C_NOW_NS]
        wait_ns[r] = now_ns - stream.arrival_ns[r]
        live.out[r, OVERSIZED] = needed > capacity
        clock[C_BUSY] = needed
        history.requests[r, R_START_NS] = now_ns
        _begin(stream, live, r, now_ns, none)
        for shadow in shadows:
            if shadow.takes[r]:
                _begin(stream, shadow, r, now_ns, none)
        finish_ns[r] = now_ns + service_ns(stream, r, live.rules, live.out)
        push(finish_ns, running, clock[C_RUNNING], r)
        clock[C_RUNNING] += 1
    while to_the_end and clock[C_RUNNING] > 0:
        _finish_next(stream, live, shadows, history, model, none, clock, finish_ns, running)
