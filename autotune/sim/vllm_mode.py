"""The vllm mode, compiled: what one request asks of the host tier by the rules of vLLM 0.32, and when.

When a request gets its turn:

1. The device run is looked up, then the host run from the chunk on in which the device run ends. A host run that is
   shorter than one chunk, or whose load does not pay, counts as none.
2. Its chunks are loaded.
3. The chunks behind it, or all chunks where there was none, are offered to the host: those that it has are reused, the
   others are candidates, in prefix order.
4. Candidates come in as long as the policy admits them; the first refusal ends the offer, because what lies behind a
   gap cannot be reached. Under marginal admission a candidate that finds no free place must outrank the next victim.
5. Exactly as many residents leave as are in the way, before anything comes in: none of those offered, and under the
   leaf rule none that the first candidate continues. If that many cannot leave, nothing changes.
6. The admitted chunks come in, in prefix order; then the refused ones are remembered, deepest first.

When it ends, its chunks that are still there become recent, deepest first: loaded and reused ones count one more use,
the others do not. The device works as in the canonical mode.

Source: vLLM 0.32, ``OffloadingConnectorScheduler`` (``_lookup_complete_chunks``, ``update_state_after_alloc``,
``_build_store_jobs``) and ``CPUOffloadingManager`` (``prepare_store``, ``on_request_finished``). Not in there: the
break-even check, admission and the leaf rule, which are the policy's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.state import TierState
from autotune.sim.columns import DEVICE_HIT, HOST_HIT
from autotune.sim.journal import LOADED, N_CALLS, NOT_OFFERED, REFUSED, REUSED, Journal
from autotune.sim.loop import Rules, pays, run_on_device, set_context, shrink_device
from autotune.sim.stream import Stream
from autotune.sim.vllm_offer import chunk_of, next_access, offer

_kernels = registry.load(registry.KERNELS, "tier")
_compiled = _kernels.compiled
_inlined = _kernels.inlined
_as_int64 = _kernels.as_int64
_is_resident = _kernels.is_resident
_refresh = _kernels.refresh
_touch = _kernels.offers.touch
_renew = _kernels.offers.renew


@_compiled
def start(
    stream: Stream,
    r: int,
    now_ns: int,
    device: TierState,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    journal: Journal,
) -> None:
    """Request ``r`` gets its turn: lookup, load, offer."""
    _note_call(journal, r)
    if next_use_of.shape[0] > 0:
        for i in range(stream.offsets[r], stream.offsets[r + 1]):
            next_use_of[stream.ids[i]] = stream.next_use[i]
    set_context(host, now_ns, r)
    first = _lookup(stream, r, device, host, rules, out, journal.fates)
    offer(stream, r, first, host, rules, next_use_of, out, journal)


@_compiled
def finish(
    stream: Stream,
    r: int,
    now_ns: int,
    reserved: int,
    device: TierState,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
    journal: Journal,
) -> None:
    """Request ``r`` ends: its chunks become recent on the host, its blocks on the device, which is then shrunk."""
    _note_call(journal, -1 - r)
    set_context(host, now_ns, r)
    _make_recent(stream, r, host, rules, next_use_of, journal.fates)
    set_context(device, now_ns, r)
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    _refresh(device, stream.ids, lo, hi, _as_int64(1), next_use_of, np.bool_(True))
    shrink_device(device, host, reserved, r, rules, next_use_of, out)


@_inlined
def _note_call(journal: Journal, call: int) -> None:
    if journal.calls.shape[0] > 0:
        journal.calls[journal.counts[N_CALLS]] = call
        journal.counts[N_CALLS] += 1


@_compiled
def _lookup(
    stream: Stream,
    r: int,
    device: TierState,
    host: TierState,
    rules: Rules,
    out: npt.NDArray[np.int32],
    fates: npt.NDArray[np.int8],
) -> int:
    """Fill in what request ``r`` finds; returns the first chunk that it offers to the host."""
    lo, hi = stream.offsets[r], stream.offsets[r + 1]
    limit = min(hi - lo, stream.max_hit[r])
    on_device = run_on_device(device, stream.ids, lo, lo + limit)
    out[r, DEVICE_HIT] = on_device
    chunk_blocks = rules.chunk_blocks
    n_chunks = (hi - lo) // chunk_blocks
    first = on_device // chunk_blocks
    end = first
    while end < n_chunks and _is_resident(host, chunk_of(stream, r, chunk_blocks, end)):
        end += 1
    n = end * chunk_blocks - on_device
    if n < chunk_blocks or not pays(stream, r, on_device, n, rules, rules.load_bytes_per_s, rules.load_latency_s):
        return _as_int64(0)
    out[r, HOST_HIT] = n
    for c in range(first, end):
        fates[lo + c] = LOADED
    return end


@_inlined
def _make_recent(
    stream: Stream,
    r: int,
    host: TierState,
    rules: Rules,
    next_use_of: npt.NDArray[np.int64],
    fates: npt.NDArray[np.int8],
) -> None:
    lo = stream.offsets[r]
    for c in range((stream.offsets[r + 1] - lo) // rules.chunk_blocks - 1, -1, -1):
        fate = fates[lo + c]
        if fate in (NOT_OFFERED, REFUSED):
            continue
        b = chunk_of(stream, r, rules.chunk_blocks, c)
        if not _is_resident(host, b):
            continue
        next_access(host, b, next_use_of)
        if fate in (LOADED, REUSED):
            _touch(host, b)
        else:
            _renew(host, b)
