"""A simulation as access records, the form in which fitting reads what any engine did."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.decide.value import prefill_s, transfer_s
from autotune.core.trace import UNKNOWN, Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim.result import CacheResult

_FATES = (Tier.DEVICE, Tier.HOST, Tier.DISK, None)


def access_records(result: CacheResult) -> Iterator[AccessRecord]:
    """One record per request and run of blocks that shared one fate, in order of time.

    A request gives up to four: what the device had, what the host had, what the disk had, and what was computed. The
    features are those known at that moment: nothing in them looks ahead.
    """
    history = _History(result.trace)
    for request in range(result.trace.n_requests):
        blocks = tuple(result.trace.blocks_of(request).tolist())
        time_s = float(result.trace.arrival_s[request] + result.wait_s[request])
        hits = [int(column[request]) for column in (result.device_hit, result.host_hit, result.disk_hit)]
        features = history.see(request, blocks, time_s, sum(hits))
        first = 0
        for tier, n in zip(_FATES, (*hits, len(blocks) - sum(hits)), strict=True):
            if n:
                yield _record(result, request, time_s, blocks, first, n, tier, features[first])
            first += n


def _record(
    result: CacheResult,
    request: int,
    time_s: float,
    blocks: tuple[int, ...],
    first: int,
    n: int,
    tier: Tier | None,
    features: AccessFeatures,
) -> AccessRecord:
    low_tokens, high_tokens = (_tokens(result.trace, request, edge) for edge in (first, first + n))
    moved_bytes, seconds = _effort(result, request, n, low_tokens, high_tokens, tier)
    session = int(result.trace.session[request])
    return AccessRecord(
        time_s=time_s,
        epoch=0,
        request=request,
        chain=session if session != UNKNOWN else blocks[0],
        block_ids=blocks[first : first + n],
        first_depth_blocks=first,
        tokens=high_tokens - low_tokens,
        tier=tier,
        moved_bytes=moved_bytes,
        seconds=seconds,
        features=features,
    )


def _tokens(trace: Trace, request: int, blocks: int) -> int:
    """Prompt tokens in the first ``blocks`` blocks of a request."""
    return min(blocks * trace.block_tokens, int(trace.input_tokens[request]))


def _effort(
    result: CacheResult, request: int, n: int, low_tokens: int, high_tokens: int, tier: Tier | None
) -> tuple[int, float]:
    """Bytes moved and seconds taken for a run: stores and prefill where it was computed, else its load."""
    costs = result.costs
    if tier is Tier.DEVICE:
        return 0, 0.0
    if tier is None:
        linear, quadratic = costs.prefill_linear_s, costs.prefill_quadratic_s
        seconds = prefill_s(high_tokens, linear, quadratic) - prefill_s(low_tokens, linear, quadratic)
        # Under lazy and exclusive stores what a request causes to be stored are other requests' blocks.
        own = int(result.stored[request]) if result.config.store_mode is StoreMode.EAGER else 0
        return own * result.block_bytes, seconds
    moved_bytes = n * result.block_bytes
    if tier is Tier.HOST:
        return moved_bytes, transfer_s(moved_bytes, costs.load_bytes_per_s, costs.load_latency_s)
    # What comes from disk crosses the link too, in one load with what the host had.
    latency_s = 0.0 if result.host_hit[request] else costs.load_latency_s
    seconds = transfer_s(moved_bytes, costs.load_bytes_per_s, latency_s)
    return moved_bytes, seconds + transfer_s(moved_bytes, costs.disk_bytes_per_s, costs.disk_latency_s)


class _History:
    """What was known about each block before a request, bounded by the number of distinct blocks."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._uses: dict[int, tuple[int, float]] = {}
        self._turns: dict[int, int] = {}

    def see(self, request: int, blocks: tuple[int, ...], time_s: float, found: int) -> list[AccessFeatures]:
        """Features of each block of a request, which counts as used from now on."""
        trace = self._trace
        session, reason = int(trace.session[request]), int(trace.stop_reason[request])
        turn = self._turns.get(session, 0) if session != UNKNOWN else None
        if turn is not None:
            self._turns[session] = turn + 1
        features = []
        for block in blocks:
            uses, last_s = self._uses.get(block, (0, time_s))
            self._uses[block] = (uses + 1, time_s)
            features.append(
                AccessFeatures(
                    frequency=float(uses + 1),
                    gap_s=time_s - last_s if uses else None,
                    hit_frac=found / len(blocks),
                    output_tokens=int(trace.output_tokens[request]),
                    stop_reason=trace.stop_reasons[reason] if reason != UNKNOWN else None,
                    turn=turn,
                )
            )
        return features
