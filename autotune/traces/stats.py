"""What a trace is like: sizes, reuse, and how long blocks wait for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.trace import Trace
from autotune.core.trace_hints import TraceHints
from autotune.traces.chains import chain_violations

_HOT_FRAC = 0.01


@dataclass(frozen=True, slots=True)
class ReuseGaps:
    """Quantiles of the seconds between two accesses to the same block."""

    p10_s: float
    p50_s: float
    p90_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class HintStats:
    """Which hints of clients a trace has.

    Attributes:
        session_end_told: Requests of which is known whether their session ends with them.
        session_ends: Those with which it does.
        expected_idle_told: Requests of which is known when the client expects to come back.
        expected_idle_p50_s: Median of that, in seconds; None where nobody told.
        priority_told: Requests with a priority.
    """

    session_end_told: int
    session_ends: int
    expected_idle_told: int
    expected_idle_p50_s: float | None
    priority_told: int


@dataclass(frozen=True, slots=True)
class TraceStats:
    """Facts about a trace; what needs blocks is 0 or None for a trace of arrivals only.

    Attributes:
        requests: Requests.
        sessions: Different conversations; 0 where the trace does not say.
        span_s: Seconds from the first arrival to the last.
        rate_per_s: Requests per second over the span; None if all arrive at once.
        tick_s: Resolution of the arrival times.
        input_tokens: Prompt tokens in total.
        output_tokens: Generated tokens in total.
        block_tokens: Tokens per block.
        accesses: Block accesses.
        unique_blocks: Different blocks among them.
        requests_without_blocks: Requests that touch no block (prompts shorter than one where only full ones count).
        infinite_hits: Accesses that an unbounded cache serves: inside the prefix run that earlier requests left.
        infinite_hit_frac: Their share of all accesses; None without accesses.
        reuse_gap: How long blocks wait for their next access; None without reuse.
        hottest_reuse_frac: Share of all reuse that falls on the most reused 1 % of blocks; None without reuse.
        chain_violations: Accesses whose predecessor differs from that of the block's first access.
        hints: Hints of clients; None where the trace has none.
    """

    requests: int
    sessions: int
    span_s: float
    rate_per_s: float | None
    tick_s: float
    input_tokens: int
    output_tokens: int
    block_tokens: int
    accesses: int
    unique_blocks: int
    requests_without_blocks: int
    infinite_hits: int
    infinite_hit_frac: float | None
    reuse_gap: ReuseGaps | None
    hottest_reuse_frac: float | None
    chain_violations: int
    hints: HintStats | None = None


def describe(trace: Trace) -> TraceStats:
    """Measure a trace; linear in its accesses but for one sort."""
    counts = np.bincount(trace.block_ids, minlength=1)
    hits = infinite_hits(trace)
    return TraceStats(
        requests=trace.n_requests,
        sessions=len(np.unique(trace.session[trace.session >= 0])),
        span_s=trace.span_s,
        rate_per_s=trace.n_requests / trace.span_s if trace.span_s > 0 else None,
        tick_s=trace.tick_s,
        input_tokens=int(trace.input_tokens.sum(dtype=np.int64)),
        output_tokens=int(trace.output_tokens.sum(dtype=np.int64)),
        block_tokens=trace.block_tokens,
        accesses=trace.n_accesses,
        unique_blocks=int(np.count_nonzero(counts)),
        requests_without_blocks=int(np.count_nonzero(np.diff(trace.block_offsets) == 0)) if trace.has_blocks else 0,
        infinite_hits=hits,
        infinite_hit_frac=hits / trace.n_accesses if trace.n_accesses else None,
        reuse_gap=_quantiles(reuse_gaps_s(trace)),
        hottest_reuse_frac=_hottest_reuse_frac(counts[counts > 0] - 1),
        chain_violations=chain_violations(trace),
        hints=None if trace.hints is None else _hint_stats(trace.hints),
    )


def _hint_stats(hints: TraceHints) -> HintStats:
    idle_s = hints.expected_idle_s[hints.expected_idle_s >= 0.0]
    return HintStats(
        session_end_told=int(np.count_nonzero(hints.session_end >= 0)),
        session_ends=int(np.count_nonzero(hints.session_end == 1)),
        expected_idle_told=len(idle_s),
        expected_idle_p50_s=float(np.median(idle_s)) if len(idle_s) else None,
        priority_told=int(np.count_nonzero(hints.priority >= 0)),
    )


def infinite_hits(trace: Trace) -> int:
    """Hits of an unbounded cache: a hit counts only in the unbroken run from the start of a prompt."""
    first = np.full(trace.n_blocks, -1, np.int64)
    first[trace.block_ids[::-1]] = np.arange(trace.n_accesses - 1, -1, -1)
    is_new = np.zeros(trace.n_accesses, bool)
    is_new[first[first >= 0]] = True
    new_so_far = np.zeros(trace.n_accesses + 1, np.int64)
    np.cumsum(is_new, out=new_so_far[1:])
    new_before = np.repeat(new_so_far[trace.block_offsets[:-1]], np.diff(trace.block_offsets))
    return int(np.count_nonzero(new_so_far[1:] == new_before))


def reuse_gaps_s(trace: Trace) -> npt.NDArray[np.float64]:
    """Seconds from each access that is not the last of its block to the next one, in no particular order."""
    order = np.argsort(trace.block_ids, kind="stable")
    same_block = np.diff(trace.block_ids[order]) == 0
    time_s = np.repeat(trace.arrival_s, np.diff(trace.block_offsets))[order]
    gaps_s: npt.NDArray[np.float64] = np.diff(time_s)[same_block]
    return gaps_s


def _quantiles(gaps_s: npt.NDArray[np.float64]) -> ReuseGaps | None:
    if len(gaps_s) == 0:
        return None
    p10_s, p50_s, p90_s, p99_s = np.quantile(gaps_s, (0.1, 0.5, 0.9, 0.99)).tolist()
    return ReuseGaps(p10_s, p50_s, p90_s, p99_s)


def _hottest_reuse_frac(reuse: npt.NDArray[np.int64]) -> float | None:
    total = int(reuse.sum())
    if not total:
        return None
    n_hot = math.ceil(_HOT_FRAC * len(reuse))
    return int(np.partition(reuse, len(reuse) - n_hot)[-n_hot:].sum()) / total
