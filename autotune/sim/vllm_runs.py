"""Whole traces in vllm mode, compiled: the loops over requests for both timings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.state import CAPACITY, TierState
from autotune.sim.columns import OVERSIZED
from autotune.sim.journal import Journal
from autotune.sim.loop import Rules, set_context, shrink_device
from autotune.sim.service import busy_after, pin, pop, push, service_ns, still_homeless, unpin
from autotune.sim.stream import Stream
from autotune.sim.vllm_mode import finish, start

_kernels = registry.load(registry.KERNELS, "tier")
_as_int64 = _kernels.as_int64


@_kernels.entry
def run_vllm_instant(
    stream: Stream,
    device: TierState,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    journal: Journal,
) -> None:
    """All requests; each ends the moment that it arrives.

    Args:
        stream: The trace's columns.
        device: State of the device tier.
        host: State of the host tier.
        rules: Engine semantics and costs.
        next_use_of: ``(n_blocks,)`` scratch for clairvoyant policies, else ``(0,)``.
        out: ``(n_requests, N_COLUMNS)`` int32 result, zeroed by the caller.
        journal: What else is noted, zeroed by the caller.
    """
    for r in range(len(stream.arrival_ns)):
        now_ns = stream.arrival_ns[r]
        start(stream, r, now_ns, device, host, rules, next_use_of, out, journal)
        finish(stream, r, now_ns, _as_int64(0), device, host, rules, next_use_of, out, journal)


@_kernels.entry
def run_vllm_service(
    stream: Stream,
    device: TierState,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    journal: Journal,
    wait_ns: npt.NDArray[np.int64],
    finish_ns: npt.NDArray[np.int64],
    running: npt.NDArray[np.int64],
) -> None:
    """All requests; each is pinned on the device until it finishes, and waits for its place, as in ``run_service``.

    Args:
        stream: The trace's columns.
        device: State of the device tier.
        host: State of the host tier.
        rules: Engine semantics and costs.
        next_use_of: ``(n_blocks,)`` scratch for clairvoyant policies, else ``(0,)``.
        out: ``(n_requests, N_COLUMNS)`` int32 result, zeroed by the caller.
        journal: What else is noted, zeroed by the caller.
        wait_ns: ``(n_requests,)`` int64 result: time from arrival to start.
        finish_ns: ``(n_requests,)`` int64 result: end of decode.
        running: ``(n_requests,)`` int64 scratch.
    """
    capacity = device.ints[CAPACITY]
    n_running, busy, reserved = 0, 0, 0
    now_ns = np.int64(0)
    for r in range(len(wait_ns)):
        now_ns = max(now_ns, stream.arrival_ns[r])
        needed = busy_after(stream, r, device, busy)
        while n_running > 0 and (finish_ns[running[0]] <= now_ns or needed > capacity):
            done = pop(finish_ns, running, n_running)
            n_running -= 1
            end_ns = finish_ns[done]
            now_ns = max(now_ns, end_ns)
            idle, homeless = unpin(stream, done, device)
            busy -= idle
            finish(stream, done, end_ns, reserved - homeless, device, host, rules, next_use_of, out, journal)
            reserved += still_homeless(stream, done, device) - homeless
            needed = busy_after(stream, r, device, busy)
        wait_ns[r] = now_ns - stream.arrival_ns[r]
        out[r, OVERSIZED] = needed > capacity
        start(stream, r, now_ns, device, host, rules, next_use_of, out, journal)
        reserved += pin(stream, r, device)
        busy = needed
        set_context(device, now_ns, r)
        shrink_device(device, host, reserved, r, rules, next_use_of, out)
        finish_ns[r] = now_ns + service_ns(stream, r, rules, out)
        push(finish_ns, running, n_running, r)
        n_running += 1
    while n_running > 0:
        done = pop(finish_ns, running, n_running)
        n_running -= 1
        end_ns = finish_ns[done]
        _, homeless = unpin(stream, done, device)
        finish(stream, done, end_ns, reserved - homeless, device, host, rules, next_use_of, out, journal)
        reserved += still_homeless(stream, done, device) - homeless
