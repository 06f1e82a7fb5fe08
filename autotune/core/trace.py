"""A trace as columns: what was asked for, when, and which blocks it touched in prefix order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.errors import TraceError
from autotune.core.trace_hints import TraceHints

FloatColumn = npt.NDArray[np.float64]
IntColumn = npt.NDArray[np.int32]
OffsetColumn = npt.NDArray[np.int64]

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class TraceProvenance:
    """Where a trace came from and what was done to it on the way; goes into every result made from it.

    Attributes:
        trace_format: Name of the reader.
        paths: File names (without folders) in the order read.
        sha256: Hash over the files' decompressed bytes in that order.
        options: Reader and conversion options that changed the content, as sorted ``(name, value)`` text pairs.
        skipped_rows: Malformed rows left out on request, as sorted ``(kind of fault, count)``.
    """

    trace_format: str
    paths: tuple[str, ...]
    sha256: str
    options: tuple[tuple[str, str], ...] = ()
    skipped_rows: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival, with their block accesses in CSR form.

    Attributes:
        arrival_s: ``(n_requests,)`` seconds since the start of the trace, never decreasing.
        input_tokens: ``(n_requests,)`` prompt length in tokens.
        output_tokens: ``(n_requests,)`` generated tokens.
        session: ``(n_requests,)`` conversation number, -1 where the trace does not say.
        stop_reason: ``(n_requests,)`` index into ``stop_reasons``, -1 where the trace does not say.
        block_offsets: ``(n_requests + 1,)``; request i touches ``block_ids[block_offsets[i]:block_offsets[i + 1]]``.
        block_ids: ``(n_accesses,)`` dense ids, numbered by first appearance from 0; an id stands for a block *and* its
            whole prefix.
        n_blocks: Distinct blocks of the whole stream (the footprint), also after slicing.
        block_tokens: Tokens per block; 0 for a trace of arrivals only.
        tick_s: Resolution of the recorded arrival times in seconds; requests of one tick arrive somewhere in it.
        stop_reasons: Names for ``stop_reason``.
        provenance: Where all this came from.
        hints: What clients told of each request; ``None`` where the trace has nothing of the kind.
    """

    arrival_s: FloatColumn
    input_tokens: IntColumn
    output_tokens: IntColumn
    session: IntColumn
    stop_reason: IntColumn
    block_offsets: OffsetColumn
    block_ids: IntColumn
    n_blocks: int
    block_tokens: int
    provenance: TraceProvenance
    tick_s: float = 0.0
    stop_reasons: tuple[str, ...] = field(default=())
    hints: TraceHints | None = None

    @classmethod
    def open(cls, source: str | list[str], **options: Any) -> Trace:
        """Read ``FORMAT:PATH``, or several of them of one format as one stream.

        Args:
            source: ``FORMAT:PATH``; the path may be a glob; ``.gz`` and ``.zst`` are read through.
            **options: Options of the reader, such as ``on_error="skip"``.

        Raises:
            TraceError: the source cannot be read, or its rows break the format's rules.
            UnknownNameError: no reader of that format is registered.
        """
        sources = [source] if isinstance(source, str) else list(source)
        split = [s.partition(":") for s in sources]
        for text, (name, colon, path) in zip(sources, split, strict=True):
            if not (name and colon and path):
                raise TraceError("a trace is given as FORMAT:PATH", got=repr(text), remedy=f"formats: {_formats()}")
        formats = {name for name, _, _ in split}
        if len(formats) != 1:
            raise TraceError(
                "several traces must be of one format to form one stream",
                got=", ".join(sorted(formats)) or "no trace",
                remedy="convert them with 'kv-autotune trace convert' first",
            )
        reader = registry.load(registry.TRACES, formats.pop())
        trace: Trace = reader([path for _, _, path in split], **options)
        return trace

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)

    @property
    def n_accesses(self) -> int:
        """Number of block accesses."""
        return int(self.block_offsets[-1] - self.block_offsets[0])

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if self.n_requests else 0.0

    @property
    def has_blocks(self) -> bool:
        """Whether the trace says which blocks were touched (else it holds arrivals and lengths only)."""
        return self.block_tokens > 0

    def require_blocks(self) -> None:
        """Refuse questions about caches where the trace only has arrivals.

        Raises:
            TraceError: the trace carries no block ids.
        """
        if not self.has_blocks:
            raise TraceError(
                "cache questions need a trace that says which blocks each request touched",
                got=f"{self.provenance.trace_format!r}, which holds arrivals and lengths only",
                remedy="use it with the queueing model, or give a trace such as mooncake:PATH",
            )

    def blocks_of(self, request: int) -> IntColumn:
        """Block ids of one request in prefix order, ``(n_blocks_of_request,)``."""
        return self.block_ids[self.block_offsets[request] : self.block_offsets[request + 1]]

    def slice(self, start: int, stop: int) -> Trace:
        """Requests ``start`` to ``stop`` (exclusive); ids, times and footprint stay those of the whole stream."""
        stop = min(stop, self.n_requests)
        start = min(start, stop)
        low, high = self.block_offsets[start], self.block_offsets[stop]
        return replace(
            self,
            arrival_s=self.arrival_s[start:stop],
            input_tokens=self.input_tokens[start:stop],
            output_tokens=self.output_tokens[start:stop],
            session=self.session[start:stop],
            stop_reason=self.stop_reason[start:stop],
            block_offsets=self.block_offsets[start : stop + 1] - low,
            block_ids=self.block_ids[low:high],
            hints=None if self.hints is None else self.hints[start:stop],
        )

    def first_request_at(self, time_s: float) -> int:
        """Index of the first request that arrives at or after ``time_s``."""
        return int(np.searchsorted(self.arrival_s, time_s, side="left"))


def dense_ids(raw_ids: npt.NDArray[Any]) -> tuple[IntColumn, int]:
    """Number arbitrary ids by first appearance.

    Args:
        raw_ids: ``(n_accesses,)`` integers or fixed-size bytes.

    Returns:
        ``(n_accesses,)`` int32 ids from 0 in order of first appearance, and how many distinct ones there are.
    """
    if len(raw_ids) == 0:
        return np.zeros(0, np.int32), 0
    _, first, inverse = np.unique(raw_ids, return_index=True, return_inverse=True)
    position = np.empty(len(first), np.int32)
    position[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return position[inverse].astype(np.int32, copy=False), len(first)


def chain_parents(trace: Trace) -> IntColumn:
    """The block that each block continues, as seen at its first appearance.

    Returns:
        ``(n_blocks,)`` int32 ids, -1 for a block that starts a prompt or does not occur in this (slice of the) trace.
    """
    previous = np.empty(trace.n_accesses, np.int32)
    previous[1:] = trace.block_ids[:-1]
    starts = trace.block_offsets[:-1][np.diff(trace.block_offsets) > 0]
    previous[starts] = UNKNOWN
    parents = np.full(trace.n_blocks, UNKNOWN, np.int32)
    parents[trace.block_ids[::-1]] = previous[::-1]
    return parents


def _formats() -> str:
    return ", ".join(registry.names(registry.TRACES))
