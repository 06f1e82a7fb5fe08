"""The tiered cache under service timing, compiled: blocks are pinned while their request runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.state import CAPACITY, PINS, SEQUENCE, TierState
from autotune.sim.columns import DEVICE_HIT, DISK_HIT, HOST_HIT, OVERSIZED
from autotune.sim.loop import Rules, become_idle, is_resident, lookup, set_context, shrink_device, shrink_host
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_compiled = _kernels.compiled
_prefill_s = _kernels.prefill_s
_transfer_s = _kernels.transfer_s


@_compiled
def busy_after(stream: Stream, r: int, device: TierState, busy: int) -> int:
    """Distinct blocks that running requests would hold if request ``r`` started now."""
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        if device.nodes[stream.ids[i], PINS] == 0:
            busy += 1
    return busy


@_compiled
def pin(stream: Stream, r: int, device: TierState) -> int:
    """Pin the request's blocks; returns how many of them need space that no resident holds yet."""
    fresh = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        if device.nodes[b, PINS] == 0 and not is_resident(device, b):
            fresh += 1
        device.nodes[b, PINS] += 1
    return fresh


@_compiled
def unpin(stream: Stream, r: int, device: TierState) -> tuple[int, int]:
    """Release the request's pins; returns how many blocks are idle now, and how many of the request lack a place."""
    idle = 0
    homeless = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        device.nodes[b, PINS] -= 1
        if device.nodes[b, PINS] == 0:
            idle += 1
        if not is_resident(device, b):
            homeless += 1
    return idle, homeless


@_compiled
def still_homeless(stream: Stream, r: int, device: TierState) -> int:
    """Blocks of a finished request that the policy did not admit but that another running request still holds."""
    n = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        if device.nodes[b, PINS] > 0 and not is_resident(device, b):
            n += 1
    return n


@_compiled
def service_ns(stream: Stream, r: int, rules: Rules, out: npt.NDArray[np.int32]) -> int:
    """Nanoseconds that the request runs: loads, prefill of what is missing, decode."""
    hits = out[r, DEVICE_HIT] + out[r, HOST_HIT] + out[r, DISK_HIT]
    total = float(stream.input_tokens[r])
    found = min(float(hits * rules.block_tokens), max(total - rules.last_tokens, 0.0))
    linear, quadratic = rules.linear_s, rules.quadratic_s
    seconds = _prefill_s(total, linear, quadratic) - _prefill_s(found, linear, quadratic)
    loaded = out[r, HOST_HIT] + out[r, DISK_HIT]
    seconds += _transfer_s(loaded * rules.block_bytes, rules.load_bytes_per_s, rules.load_latency_s)
    seconds += _transfer_s(out[r, DISK_HIT] * rules.block_bytes, rules.disk_bytes_per_s, rules.disk_latency_s)
    return int(seconds * 1e9) + stream.decode_ns[r]


@_compiled
def push(finish_ns: npt.NDArray[np.int64], running: npt.NDArray[np.int64], size: int, r: int) -> None:
    """Add request ``r`` to the binary heap of running requests, earliest ``(finish, request)`` first."""
    slot = size
    while slot > 0:
        parent = (slot - 1) >> 1
        p = running[parent]
        if (finish_ns[p], p) <= (finish_ns[r], r):
            break
        running[slot] = p
        slot = parent
    running[slot] = r


@_compiled
def pop(finish_ns: npt.NDArray[np.int64], running: npt.NDArray[np.int64], size: int) -> int:
    """Take the request that finishes first out of the heap of ``size``."""
    first = running[0]
    last = running[size - 1]
    slot = 0
    while True:
        child = 2 * slot + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1:
            left, right = running[child], running[child + 1]
            if (finish_ns[right], right) < (finish_ns[left], left):
                child += 1
        c = running[child]
        if (finish_ns[last], last) <= (finish_ns[c], c):
            break
        running[slot] = c
        slot = child
    running[slot] = last
    return int(first)


@_kernels.entry
def run_service(
    stream: Stream,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    wait_ns: npt.NDArray[np.int64],
    finish_ns: npt.NDArray[np.int64],
    running: npt.NDArray[np.int64],
) -> None:
    """All requests; blocks are pinned until their request finishes and charged to the device.

    A request that does not fit waits, and so do those behind it. One that is larger than the whole device runs alone.

    Args:
        stream: The trace's columns.
        device: State of the device tier.
        host: State of the host tier; capacity 0 if there is none.
        disk: State of the disk tier; capacity 0 if there is none.
        rules: Engine semantics and costs.
        next_use_of: ``(n_blocks,)`` scratch for clairvoyant policies, else ``(0,)``.
        out: ``(n_requests, N_COLUMNS)`` int32 result, zeroed by the caller.
        wait_ns: ``(n_requests,)`` int64 result: time from arrival to start.
        finish_ns: ``(n_requests,)`` int64 result: end of decode.
        running: ``(n_requests,)`` int64 scratch.
    """
    capacity = device.ints[CAPACITY]
    n_running = 0
    busy = 0
    reserved = 0
    now_ns = np.int64(0)
    for r in range(len(wait_ns)):
        now_ns = max(now_ns, stream.arrival_ns[r])
        needed = busy_after(stream, r, device, busy)
        while n_running > 0 and (finish_ns[running[0]] <= now_ns or needed > capacity):
            done = pop(finish_ns, running, n_running)
            n_running -= 1
            now_ns = max(now_ns, finish_ns[done])
            idle, homeless = unpin(stream, done, device)
            busy -= idle
            become_idle(stream, done, finish_ns[done], reserved - homeless, device, host, disk, rules, next_use_of, out)
            reserved += still_homeless(stream, done, device) - homeless
            needed = busy_after(stream, r, device, busy)
        wait_ns[r] = now_ns - stream.arrival_ns[r]
        out[r, OVERSIZED] = needed > capacity
        lookup(stream, r, device, host, disk, rules, out)
        reserved += pin(stream, r, device)
        busy = needed
        set_context(device, now_ns, r)
        if host.ints[CAPACITY] > 0:
            set_context(host, now_ns, r)
        if disk.ints[CAPACITY] > 0:
            set_context(disk, now_ns, r)
        since = host.ints[SEQUENCE]
        shrink_device(device, host, reserved, r, rules, next_use_of, out)
        shrink_host(host, disk, r, since, next_use_of, out)
        finish_ns[r] = now_ns + service_ns(stream, r, rules, out)
        push(finish_ns, running, n_running, r)
        n_running += 1
    while n_running > 0:
        done = pop(finish_ns, running, n_running)
        n_running -= 1
        _, homeless = unpin(stream, done, device)
        become_idle(stream, done, finish_ns[done], reserved - homeless, device, host, disk, rules, next_use_of, out)
        reserved += still_homeless(stream, done, device) - homeless
