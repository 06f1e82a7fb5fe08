"""The tiered cache, compiled: one pass over the requests of a trace.

Semantics (see :mod:`autotune.sim`): a request touches its blocks in prefix order; the longest run present on the device
is a device hit, from there the longest run on the host is loaded, from there the disk's, and the rest is computed.
When the request's blocks become idle they are refreshed deepest first, then each tier is shrunk to capacity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.decide import policy_codes as codes
from autotune.core.state import (
    CAPACITY,
    INSERTED_BY,
    KEY_SEQUENCE,
    KIND,
    N_VICTIMS,
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
    STORED,
    STORED_DISK,
)
from autotune.sim.stream import Stream

_kernels = registry.load(registry.KERNELS, "tier")
_compiled = _kernels.compiled
_inlined = _kernels.inlined
_as_int64 = _kernels.as_int64
_refresh = _kernels.refresh
_remove = _kernels.remove
_shrink = _kernels.shrink
is_resident = _kernels.is_resident
_load_pays = _kernels.load_pays
_advance = _kernels.advance
_receive = _kernels.receive
_take_back_write = _kernels.take_back_write

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
        block_bytes: Bytes per block.
        linear_s: Prefill seconds per token.
        quadratic_s: Prefill seconds per pair of tokens.
        load_bytes_per_s: Bandwidth of the link from the host.
        load_latency_s: Fixed seconds per load from the host.
        disk_bytes_per_s: Bandwidth of the disk.
        disk_latency_s: Fixed seconds per read from disk.
        disk_path_bytes_per_s: Bandwidth of disk and link one after the other.
        last_tokens: Tokens at the end of a prompt that are computed even if they were found.
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
    disk_path_bytes_per_s: float
    last_tokens: int


@_inlined
def run_on_device(device: TierState, ids: npt.NDArray[np.int32], lo: int, stop: int) -> int:
    """Blocks from ``ids[lo]`` on, up to ``stop``, that the device holds without a gap."""
    n = 0
    while lo + n < stop:
        b = ids[lo + n]
        if not (is_resident(device, b) or device.nodes[b, PINS] > 0):
            break
        n += 1
    return n


@_inlined
def _run_below(tier: TierState, ids: npt.NDArray[np.int32], lo: int, hi: int, start: int, stop: int, chunk: int) -> int:
    """Blocks from position ``start`` that whole chunks of a lower tier cover, at most up to position ``stop``."""
    if tier.ints[CAPACITY] == 0:
        return 0
    end = start
    c = start // chunk
    while lo + (c + 1) * chunk <= hi and end < stop:
        if not is_resident(tier, ids[lo + (c + 1) * chunk - 1]):
            break
        c += 1
        end = min(c * chunk, stop)
    return end - start


@_compiled
def lookup(
    stream: Stream,
    r: int,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    out: npt.NDArray[np.int32],
) -> None:
    """Fill in what request ``r`` finds on each tier."""
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    limit = min(hi - lo, stream.max_hit[r])
    on_device = run_on_device(device, stream.ids, lo, lo + limit)
    out[r, DEVICE_HIT] = on_device
    on_host = _run_below(host, stream.ids, lo, hi, on_device, limit, rules.chunk_blocks)
    if on_host > 0 and not pays(stream, r, on_device, on_host, rules, rules.load_bytes_per_s, rules.load_latency_s):
        return
    out[r, HOST_HIT] = on_host
    start = on_device + on_host
    on_disk = _run_below(disk, stream.ids, lo, hi, start, limit, rules.chunk_blocks)
    # What comes from disk crosses the link too; only a load from the host has paid the link's latency already.
    latency_s = rules.disk_latency_s + (0.0 if on_host > 0 else rules.load_latency_s)
    if on_disk > 0 and pays(stream, r, start, on_disk, rules, rules.disk_path_bytes_per_s, latency_s):
        out[r, DISK_HIT] = on_disk


@_compiled
def pays(stream: Stream, r: int, start: int, n: int, rules: Rules, bytes_per_s: float, latency_s: float) -> bool:
    """Whether request ``r`` loads the ``n`` blocks from position ``start`` on rather than compute them."""
    if n < rules.min_load_blocks:
        return False
    if not rules.check_break_even:
        return True
    start_tokens = float(start * rules.block_tokens)
    end_tokens = min(float((start + n) * rules.block_tokens), float(stream.input_tokens[r]))
    return _load_pays(
        start_tokens, end_tokens, rules.linear_s, rules.quadratic_s, n * rules.block_bytes, bytes_per_s, latency_s
    )


@_inlined
def set_context(tier: TierState, now_ns: int, r: int) -> None:
    """Tell a tier what time it is and whose turn."""
    tier.ints[NOW_NS] = now_ns
    tier.ints[REQUEST] = r
    _advance(tier)


@_inlined
def shrink_host(
    host: TierState,
    disk: TierState,
    r: int,
    since: int,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    """Evict from host and disk down to capacity.

    Under marginal admission a block that would leave in the very round that brings it is never stored at all; the
    round is what request ``r`` did after access number ``since``.
    """
    marginal = host.ints[KIND] >= codes.RANK and host.params[_ADMISSION] == _MARGINAL
    n = N_VICTIMS
    while n == N_VICTIMS:
        n = _shrink(host, _as_int64(0))
        n_left = _as_int64(0)
        for i in range(n):
            b = host.victims[i]
            if marginal and host.keys[b, INSERTED_BY] == r and host.keys[b, KEY_SEQUENCE] > since:
                _take_back_write(host)
            else:
                host.victims[n_left] = b
                n_left += 1
        out[r, STORED] -= n - n_left
        out[r, EVICTED_HOST] += n_left
        if disk.ints[CAPACITY] > 0:
            out[r, STORED_DISK] += _receive(disk, host.victims, n_left, next_use_of, np.bool_(True))
    n = N_VICTIMS
    while n == N_VICTIMS:
        n = _shrink(disk, _as_int64(0))


@_inlined
def shrink_device(
    device: TierState,
    host: TierState,
    reserved: int,
    r: int,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    """Evict from the device until its residents fit beside ``reserved`` blocks; the host is offered what it lacks."""
    n = N_VICTIMS
    while n == N_VICTIMS:
        n = _shrink(device, reserved)
        out[r, EVICTED_DEVICE] += n
        if host.ints[CAPACITY] > 0:
            out[r, STORED] += _receive(host, device.victims, n, next_use_of, rules.store_mode != EAGER)


@_inlined
def _refresh_host(
    stream: Stream,
    r: int,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> None:
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    before = host.ints[SIZE]
    _refresh(host, stream.ids, lo, hi, rules.chunk_blocks, next_use_of, rules.store_mode == EAGER)
    out[r, STORED] += host.ints[SIZE] - before
    if rules.store_mode == EXCLUSIVE:
        for i in range(hi - 1, lo - 1, -1):
            b = _as_int64(stream.ids[i])
            if is_resident(host, b):
                _remove(host, b)


@_compiled
def become_idle(
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
    since = host.ints[SEQUENCE]
    if next_use_of.shape[0] > 0:
        for i in range(lo, hi):
            # A request that began earlier may finish later, and knows of an earlier next use, which has been.
            next_use_of[stream.ids[i]] = max(next_use_of[stream.ids[i]], stream.next_use[i])
    set_context(device, now_ns, r)
    _refresh(device, stream.ids, lo, hi, _as_int64(1), next_use_of, np.bool_(True))
    if host.ints[CAPACITY] > 0:
        set_context(host, now_ns, r)
        _refresh_host(stream, r, host, rules, next_use_of, out)
    if disk.ints[CAPACITY] > 0:
        set_context(disk, now_ns, r)
        _refresh(disk, stream.ids, lo, hi, rules.chunk_blocks, next_use_of, np.bool_(False))
    shrink_device(device, host, reserved, r, rules, next_use_of, out)
    if host.ints[CAPACITY] > 0:
        shrink_host(host, disk, r, since, next_use_of, out)


@_kernels.entry
def run_instant(
    stream: Stream,
    device: TierState,
    host: TierState,
    disk: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
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
        start: First request.
        stop: One past the last request.
    """
    for r in range(start, stop):
        lookup(stream, r, device, host, disk, rules, out)
        become_idle(stream, r, stream.arrival_ns[r], _as_int64(0), device, host, disk, rules, next_use_of, out)
