"""Several sessions as one stream of arrivals.

Sessions recorded one by one say nothing about how they overlapped. Merging them is an assumption, so it only happens on
request, with an explicit seed, and the provenance of the result says so.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import UNKNOWN, IntColumn, Trace, TraceProvenance
from autotune.core.trace_hints import TraceHints
from autotune.traces.coarsen import coarsen
from autotune.traces.columns import first_appearance, offsets, run_positions
from autotune.traces.options import number_text, seconds, whole


@dataclass(frozen=True, slots=True)
class _Placed:
    """A session at its place in the merged stream."""

    trace: Trace
    arrival_s: npt.NDArray[np.float64]
    provenance: TraceProvenance
    n_cut: int


def merge_sessions(traces: Iterable[Trace], span_s: float, seed: int, block_tokens: int | None = None) -> Trace:
    """Start each session at a uniformly random time in ``[0, span_s]`` and cut the stream at ``span_s``.

    Block ids of different sessions stay apart. Sessions are taken one at a time, so that memory holds the result and
    one session in full detail only.

    Args:
        traces: One trace per session, in a fixed order (the starts are drawn in that order).
        span_s: Length of the stream in seconds.
        seed: Of the random starts.
        block_tokens: Coarsen each session to blocks of so many tokens; None keeps them.

    Returns:
        The merged stream, from time 0. Its provenance has the hash over the sessions' hashes (as hexadecimal text), and
        the options ``merged_sessions``, ``merge_span_s``, ``merge_seed`` and ``merge_cut_requests`` (left out because
        they came after the end).

    Raises:
        TraceError: there is no session, their block sizes or formats differ, their ids are shared between sessions, or
            an argument is unfit.
    """
    span_s = seconds("the merged span", span_s, low=1e-3)
    random = np.random.default_rng(whole("seed", seed))
    placed = [_place(trace, float(random.uniform(0.0, span_s)), span_s, block_tokens) for trace in traces]
    _require_alike([session.trace for session in placed])
    provenance = _provenance(placed, span_s, seed)
    return _joined(placed, provenance)


def _place(trace: Trace, start_s: float, span_s: float, block_tokens: int | None) -> _Placed:
    fitted = trace if block_tokens is None else coarsen(trace, block_tokens)
    arrival_s = fitted.arrival_s + start_s
    n_kept = int(np.searchsorted(arrival_s, span_s, side="right"))
    return _Placed(fitted.slice(0, n_kept), arrival_s[:n_kept], fitted.provenance, trace.n_requests - n_kept)


def _require_alike(traces: Sequence[Trace]) -> None:
    remedy = "merge sessions of one format and one block size, or convert them apart"
    if not traces:
        raise TraceError("merging needs at least one session", got="none", remedy="check the path")
    block_tokens = sorted({trace.block_tokens for trace in traces})
    if len(block_tokens) > 1:
        raise TraceError("merged sessions must have one block size", got=f"{block_tokens} tokens", remedy=remedy)
    formats = sorted({trace.provenance.trace_format for trace in traces})
    if len(formats) > 1:
        raise TraceError("merged sessions must be of one format", got=", ".join(formats), remedy=remedy)
    if len(traces) > 1 and any(("hash_id_scope", "global") in trace.provenance.options for trace in traces):
        raise TraceError(
            "merging keeps the block ids of sessions apart",
            got="a session that shares ids with others (hash_id_scope global)",
            remedy="use each session on its own",
        )


def _joined(placed: Sequence[_Placed], provenance: TraceProvenance) -> Trace:
    traces = [session.trace for session in placed]
    arrival_s = np.concatenate([session.arrival_s for session in placed])
    order = np.argsort(arrival_s, kind="stable")
    counts = np.concatenate([np.diff(trace.block_offsets) for trace in traces])
    footprints = offsets(np.array([trace.n_blocks for trace in traces], np.int64))
    block_ids = np.concatenate(
        [trace.block_ids.astype(np.int64) + low for trace, low in zip(traces, footprints, strict=False)]
    )
    starts = offsets(counts)[:-1]
    block_ids, n_blocks = first_appearance(block_ids[run_positions(starts[order], counts[order])], int(footprints[-1]))
    names = tuple(dict.fromkeys(name for trace in traces for name in trace.stop_reasons))
    hints = TraceHints.joined([(trace.hints, trace.n_requests) for trace in traces])
    return Trace(
        arrival_s=arrival_s[order] - arrival_s[order[0]],
        input_tokens=np.concatenate([trace.input_tokens for trace in traces])[order],
        output_tokens=np.concatenate([trace.output_tokens for trace in traces])[order],
        session=np.repeat(np.arange(len(traces), dtype=np.int32), [trace.n_requests for trace in traces])[order],
        stop_reason=np.concatenate([_renamed(trace, names) for trace in traces])[order],
        block_offsets=offsets(counts[order]),
        block_ids=block_ids,
        n_blocks=n_blocks,
        block_tokens=traces[0].block_tokens,
        provenance=provenance,
        tick_s=max(trace.tick_s for trace in traces),
        stop_reasons=names,
        hints=None if hints is None else hints[order],
    )


def _renamed(trace: Trace, names: tuple[str, ...]) -> IntColumn:
    # The last place stands for "unknown", which -1 selects.
    places = np.array([*(names.index(name) for name in trace.stop_reasons), UNKNOWN], np.int32)
    return places[trace.stop_reason]


def _provenance(placed: Sequence[_Placed], span_s: float, seed: int) -> TraceProvenance:
    parts = [session.provenance for session in placed]
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(dict(part.skipped_rows))
    shared = set(parts[0].options).intersection(*(part.options for part in parts[1:]))
    added = {
        "merge_cut_requests": str(sum(session.n_cut for session in placed)),
        "merge_seed": str(seed),
        "merge_span_s": number_text(span_s),
        "merged_sessions": str(len(placed)),
    }
    return replace(
        parts[0],
        paths=tuple(path for part in parts for path in part.paths),
        sha256=hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest(),
        options=tuple(sorted((dict(shared) | added).items())),
        skipped_rows=tuple(sorted(skipped.items())),
    )
