"""The tiered cache, compiled: one pass over the requests of a trace.

Semantics (see :mod:`autotune.sim`): a request touches its blocks in prefix order; the longest run present on the device
is a device hit, from there the longest run on the host is loaded, from there the disk's, and the rest is computed.
When the request's blocks become idle they are refreshed deepest first, then each tier is shrunk to capacity.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from autotune.core import registry
from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    CAPACITY,
    INSERTED_BY,
    KIND,
    NEWCOMERS,
    NEXT_USE,
    NOW_NS,
    PINS,
    REQUEST,
    SEQUENCE,
    SIZE,
    TierState,
)
from autotune.sim.columns import (
    DEVICE_HIT,
    DISK_HIT,
    EVICTED_DEVICE,
    EVICTED_HOST,
    HOST_HIT,
    OVERSIZED,
    STORED,
    STORED_DISK,
)
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_refresh = _kernels.refresh
_evict = _kernels.evict
_admits = _kernels.admits
_demote = _kernels.demote
_remove = _kernels.remove
_is_resident = _kernels.is_resident
_load_pays = _kernels.load_pays
_prefill_s = _kernels.prefill_s
_transfer_s = _kernels.transfer_s

EAGER, LAZY, EXCLUSIVE = range(3)
_MARGINAL = 1.0
_ADMISSION = 3


class Rules(NamedTuple):
    """Engine semantics and cost coefficients.

    Attributes:
        store_mode: 0 eager, 1 lazy, 2 exclusive.
        chunk_blocks: Blocks stored together on the host.
        min_load_blocks: Shorter runs are recomputed instead of loaded.
        check_break_even: Whether a load that takes longer than recomputing is refused.
        block_tokens: Tokens per block.
    """

    store_mode: int
    chunk_blocks: int
    min_load_blocks: int
    check_break_even: bool
    block_tokens: int
    block_bytes: float
    linear_s: float
    quadratic_s: float
    load_bytes_per_s: float
    load_latency_s: float
    disk_bytes_per_s: float
    disk_latency_s: float


@njit(cache=True)
def _run_on_device(device: TierState, ids: npt.NDArray[np.int32], lo: int, stop: int) -> int:
    n = 0
    while lo + n < stop:
        b = ids[lo + n]
        if not (_is_resident(device, b) or device.nodes[b, PINS] > 0):
            break
        n += 1
    return n


@njit(cache=True)
def _run_below(tier: TierState, ids: npt.NDArray[np.int32], lo: int, hi: int, start: int, stop: int, chunk: int) -> int:
    """Blocks from position ``start`` that whole chunks of a lower tier cover, at most up to position ``stop``."""
    if tier.ints[CAPACITY] == 0:
        return 0
    end = start
    c = start // chunk
    while lo + (c + 1) * chunk <= hi and end < stop:
        if not _is_resident(tier, ids[lo + (c + 1) * chunk - 1]):
            break
        c += 1
        end = min(c * chunk, stop)
    return end - start


@njit(cache=True)
def _lookup(
    stream: Stream, r: int, device: TierState, host: TierState, disk: TierState, rules: Rules, out: npt.NDArray[np.int32]
) -> None:
    """Fill in what request ``r`` finds on each tier."""
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    limit = min(hi - lo, stream.max_hit[r])
    on_device = _run_on_device(device, stream.ids, lo, lo + limit)
    out[r, DEVICE_HIT] = on_device
    on_host = _run_below(host, stream.ids, lo, hi, on_device, limit, rules.chunk_blocks)
    if on_host > 0 and not _pays(stream, r, on_device, on_host, rules, rules.load_bytes_per_s, rules.load_latency_s):
        return
    out[r, HOST_HIT] = on_host
    start = on_device + on_host
    on_disk = _run_below(disk, stream.ids, lo, hi, start, limit, rules.chunk_blocks)
    if on_disk > 0 and _pays(stream, r, start, on_disk, rules, rules.disk_bytes_per_s, rules.disk_latency_s):
        out[r, DISK_HIT] = on_disk


@njit(cache=True)
def _pays(stream: Stream, r: int, start: int, n: int, rules: Rules, bytes_per_s: float, latency_s: float) -> bool:
    if n < rules.min_load_blocks:
        return False
    if not rules.check_break_even:
        return True
    start_tokens = float(start * rules.block_tokens)
    end_tokens = min(float((start + n) * rules.block_tokens), float(stream.input_tokens[r]))
    return _load_pays(
        start_tokens, end_tokens, rules.linear_s, rules.quadratic_s, n * rules.block_bytes, bytes_per_s, latency_s
    )


@njit(cache=True)
def _set_context(tier: TierState, now_ns: int, r: int) -> None:
    tier.ints[NOW_NS] = now_ns
    tier.ints[REQUEST] = r


@njit(cache=True)
def _hand_down(
    below: TierState, b: int, r: int, next_use_of: npt.NDArray[np.int64], out: npt.NDArray[np.int32], column: int
) -> None:
    """A victim of the nearer tier goes to the tier below, if that one has room for its kind and lacks it."""
    if below.ints[CAPACITY] == 0 or _is_resident(below, b) or not _admits(below, b):
        return
    below.ints[SEQUENCE] += 1
    if next_use_of.shape[0] > 0:
        below.ints[NEXT_USE] = next_use_of[b]
    _demote(below, b)
    out[r, column] += 1


@njit(cache=True)
def _shrink_host(
    host: TierState, disk: TierState, r: int, next_use_of: npt.NDArray[np.int64], out: npt.NDArray[np.int32]
) -> None:
    """Evict from host and disk down to capacity.

    Under marginal admission a block that would leave in the very round that brings it is never stored at all.
    """
    marginal = host.ints[KIND] == codes.RANK and host.params[_ADMISSION] == _MARGINAL
    while host.ints[SIZE] > host.ints[CAPACITY]:
        b = _evict(host)
        if marginal and host.keys[b, INSERTED_BY] == r:
            out[r, STORED] -= 1
            continue
        out[r, EVICTED_HOST] += 1
        _hand_down(disk, b, r, next_use_of, out, STORED_DISK)
    host.ints[NEWCOMERS] = 0
    while disk.ints[SIZE] > disk.ints[CAPACITY]:
        _evict(disk)
    disk.ints[NEWCOMERS] = 0


@njit(cache=True)
def _shrink_device(
    device: TierState,
    host: TierState,
    reserved: int,
    r: int,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    while device.ints[SIZE] + reserved > device.ints[CAPACITY]:
        b = _evict(device)
        if b < 0:
            break
        out[r, EVICTED_DEVICE] += 1
        if rules.store_mode != EAGER:
            _hand_down(host, b, r, next_use_of, out, STORED)
    device.ints[NEWCOMERS] = 0


@njit(cache=True)
def _refresh_host(
    stream: Stream, r: int, host: TierState, rules: Rules, next_use_of: npt.NDArray[np.int64], out: npt.NDArray[np.int32]
) -> None:
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    before = host.ints[SIZE]
    _refresh(host, stream.ids, lo, hi, rules.chunk_blocks, next_use_of, rules.store_mode == EAGER)
    out[r, STORED] += host.ints[SIZE] - before
    if rules.store_mode == EXCLUSIVE:
        for i in range(hi - 1, lo - 1, -1):
            if _is_resident(host, stream.ids[i]):
                _remove(host, stream.ids[i])


@njit(cache=True)
def _become_idle(
    stream: Stream,
    r: int,
    now_ns: int,
    reserved: int,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    """The request's blocks are refreshed on every tier, then the tiers are shrunk, nearest first."""
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    if next_use_of.shape[0] > 0:
        for i in range(lo, hi):
            next_use_of[stream.ids[i]] = stream.next_use[i]
    _set_context(device, now_ns, r)
    _refresh(device, stream.ids, lo, hi, 1, next_use_of, True)
    if host.ints[CAPACITY] > 0:
        _set_context(host, now_ns, r)
        _refresh_host(stream, r, host, rules, next_use_of, out)
    if disk.ints[CAPACITY] > 0:
        _set_context(disk, now_ns, r)
        _refresh(disk, stream.ids, lo, hi, rules.chunk_blocks, next_use_of, False)
    _shrink_device(device, host, reserved, r, rules, next_use_of, out)
    _shrink_host(host, disk, r, next_use_of, out)


@njit(cache=True)
def run_instant(
    stream: Stream,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    wait_ns: npt.NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    """Requests ``start`` to ``stop``; blocks become idle the moment that the request arrives.

    Args:
        stream: The trace's columns.
        device: State of the device tier.
        host: State of the host tier; capacity 0 if there is none.
        disk: State of the disk tier; capacity 0 if there is none.
        rules: Engine semantics and costs.
        next_use_of: ``(n_blocks,)`` scratch for clairvoyant policies, else ``(0,)``.
        out: ``(n_requests, N_COLUMNS)`` int32 result, zeroed by the caller.
        wait_ns: ``(n_requests,)`` waiting times; untouched, nobody waits here.
        start: First request.
        stop: One past the last request.
    """
    for r in range(start, stop):
        _lookup(stream, r, device, host, disk, rules, out)
        _become_idle(stream, r, stream.arrival_ns[r], 0, device, host, disk, rules, next_use_of, out)


@njit(cache=True)
def _busy_after(stream: Stream, r: int, device: TierState, busy: int) -> int:
    """Distinct blocks that running requests would hold if request ``r`` started now."""
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        if device.nodes[stream.ids[i], PINS] == 0:
            busy += 1
    return busy


@njit(cache=True)
def _pin(stream: Stream, r: int, device: TierState) -> int:
    """Pin the request's blocks; returns how many of them need space that no resident holds yet."""
    fresh = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        if device.nodes[b, PINS] == 0 and not _is_resident(device, b):
            fresh += 1
        device.nodes[b, PINS] += 1
    return fresh


@njit(cache=True)
def _unpin(stream: Stream, r: int, device: TierState) -> tuple[int, int]:
    """Release the request's pins; returns how many blocks are idle now, and how many of the request lack a place."""
    idle = 0
    homeless = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        device.nodes[b, PINS] -= 1
        if device.nodes[b, PINS] == 0:
            idle += 1
        if not _is_resident(device, b):
            homeless += 1
    return idle, homeless


@njit(cache=True)
def _still_homeless(stream: Stream, r: int, device: TierState) -> int:
    """Blocks of a finished request that the policy did not admit but that another running request still holds."""
    n = 0
    for i in range(stream.offsets[r], stream.offsets[r + 1]):
        b = stream.ids[i]
        if device.nodes[b, PINS] > 0 and not _is_resident(device, b):
            n += 1
    return n


@njit(cache=True)
def _service_ns(stream: Stream, r: int, rules: Rules, out: npt.NDArray[np.int32]) -> int:
    """Nanoseconds that the request runs: loads, prefill of what is missing, decode."""
    found = min(
        float((out[r, DEVICE_HIT] + out[r, HOST_HIT] + out[r, DISK_HIT]) * rules.block_tokens), float(stream.input_tokens[r])
    )
    total = float(stream.input_tokens[r])
    seconds = _prefill_s(total, rules.linear_s, rules.quadratic_s) - _prefill_s(found, rules.linear_s, rules.quadratic_s)
    loaded = out[r, HOST_HIT] + out[r, DISK_HIT]
    seconds += _transfer_s(loaded * rules.block_bytes, rules.load_bytes_per_s, rules.load_latency_s)
    seconds += _transfer_s(out[r, DISK_HIT] * rules.block_bytes, rules.disk_bytes_per_s, rules.disk_latency_s)
    return int(seconds * 1e9) + stream.decode_ns[r]


@njit(cache=True)
def run_service(
    stream: Stream,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    wait_ns: npt.NDArray[np.int64],
    start: int,
    stop: int,
) -> None:
    """Requests ``start`` to ``stop``; blocks are pinned until their request finishes and charged to the device.

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
        start: First request.
        stop: One past the last request.
    """
    running = [(np.int64(0), np.int64(0)) for _ in range(0)]
    capacity = device.ints[CAPACITY]
    busy = 0
    reserved = 0
    now_ns = np.int64(0)
    for r in range(start, stop):
        now_ns = max(now_ns, stream.arrival_ns[r])
        needed = _busy_after(stream, r, device, busy)
        while len(running) > 0 and (running[0][0] <= now_ns or needed > capacity):
            finish_ns, done = heapq.heappop(running)
            now_ns = max(now_ns, finish_ns)
            idle, homeless = _unpin(stream, done, device)
            busy -= idle
            _become_idle(stream, done, finish_ns, reserved - homeless, device, host, disk, rules, next_use_of, out)
            reserved += _still_homeless(stream, done, device) - homeless
            needed = _busy_after(stream, r, device, busy)
        wait_ns[r] = now_ns - stream.arrival_ns[r]
        out[r, OVERSIZED] = needed > capacity
        _lookup(stream, r, device, host, disk, rules, out)
        reserved += _pin(stream, r, device)
        busy = needed
        _set_context(device, now_ns, r)
        if host.ints[CAPACITY] > 0:
            _set_context(host, now_ns, r)
        _shrink_device(device, host, reserved, r, rules, next_use_of, out)
        _shrink_host(host, disk, r, next_use_of, out)
        heapq.heappush(running, (now_ns + _service_ns(stream, r, rules, out), np.int64(r)))
    while len(running) > 0:
        finish_ns, done = heapq.heappop(running)
        idle, homeless = _unpin(stream, done, device)
        busy -= idle
        _become_idle(stream, done, finish_ns, reserved - homeless, device, host, disk, rules, next_use_of, out)
        reserved += _still_homeless(stream, done, device) - homeless
