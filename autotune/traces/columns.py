"""From rows to the columns of a ``Trace``."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import UNKNOWN, IntColumn, Trace, TraceProvenance, dense_ids
from autotune.core.trace_hints import NO_HINTS, RequestHints, TraceHints
from autotune.traces.fields import Fault, Malformed
from autotune.traces.ticks import resolution


class Columns:
    """Collects requests and turns them into a ``Trace``; about 16 bytes per block access while it grows.

    Args:
        units_per_s: How many of the format's units of time make a second; times are integers in that unit.
        must_be_sorted: Whether a request that arrives before its predecessor is malformed. Else ``trace`` sorts them,
            keeping the order of requests of the same time.
    """

    def __init__(self, *, units_per_s: int, must_be_sorted: bool) -> None:
        self._units_per_s = units_per_s
        self._must_be_sorted = must_be_sorted
        self._time, self._counts, self._block_ids = array("q"), array("q"), array("q")
        self._input_tokens, self._output_tokens = array("i"), array("i")
        self._session, self._stop_reason = array("i"), array("i")
        self._stop_reasons: dict[str, int] = {}
        self._hints: list[RequestHints] = []  # those of all requests up to the last one that has any

    def add(
        self,
        time: int,
        input_tokens: int,
        output_tokens: int,
        block_ids: Iterable[int] = (),
        *,
        session: int = UNKNOWN,
        stop_reason: str = "",
        hints: RequestHints = NO_HINTS,
    ) -> None:
        """Take one request; either all of it or, when malformed, nothing.

        Args:
            time: Arrival in units of time, from 0 to the largest int64.
            input_tokens: Prompt length.
            output_tokens: Generated tokens.
            block_ids: int64 ids in prefix order.
            session: Conversation number.
            stop_reason: Why the generation ended; empty where the format does not say.
            hints: What the client told.

        Raises:
            Malformed: it arrives before its predecessor in a format that must be sorted.
        """
        if self._must_be_sorted and self._time and time < self._time[-1]:
            rule = f"arrival times must not go back (the row before has {self._time[-1]})"
            raise Malformed(Fault.TIME_GOES_BACK, rule, str(time))
        before = len(self._block_ids)
        self._block_ids.extend(block_ids)
        self._counts.append(len(self._block_ids) - before)
        if hints != NO_HINTS:
            self._hints += [NO_HINTS] * (len(self._time) - len(self._hints)) + [hints]
        self._time.append(time)
        self._input_tokens.append(input_tokens)
        self._output_tokens.append(output_tokens)
        self._session.append(session)
        known = self._stop_reasons
        self._stop_reason.append(known.setdefault(stop_reason, len(known)) if stop_reason else UNKNOWN)

    def __len__(self) -> int:
        return len(self._time)

    @property
    def is_sorted(self) -> bool:
        """Whether the requests came in order of arrival."""
        time = _view(self._time, np.int64)
        return bool(np.all(time[1:] >= time[:-1]))

    def trace(self, provenance: TraceProvenance, *, block_tokens: int, tick_s: float | None = None) -> Trace:
        """The trace of all requests taken, in order of arrival from 0 and with dense ids.

        Args:
            provenance: Where it came from.
            block_tokens: Tokens per block; 0 for arrivals only.
            tick_s: Resolution of the times in seconds; None detects it.

        Raises:
            TraceError: there is no request.
        """
        if not self._time:
            skipped = ", ".join(f"{count} × {kind}" for kind, count in provenance.skipped_rows)
            raise TraceError(
                "a trace must hold at least one request",
                got=f"none in {', '.join(provenance.paths)}" + (f" (skipped: {skipped})" if skipped else ""),
                remedy="check the file and the format's name",
            )
        time = _view(self._time, np.int64)
        order = np.argsort(time, kind="stable")
        time = time[order] - time[order[0]]
        counts = _view(self._counts, np.int64)
        raw_ids = _view(self._block_ids, np.int64)
        block_ids, n_blocks = dense_ids(raw_ids if self.is_sorted else _gathered(raw_ids, counts, order))
        return Trace(
            arrival_s=time / self._units_per_s,
            input_tokens=_view(self._input_tokens, np.int32)[order],
            output_tokens=_view(self._output_tokens, np.int32)[order],
            session=_renumbered(_view(self._session, np.int32)[order]),
            stop_reason=_view(self._stop_reason, np.int32)[order],
            block_offsets=offsets(counts[order]),
            block_ids=block_ids,
            n_blocks=n_blocks,
            block_tokens=block_tokens,
            provenance=provenance,
            tick_s=resolution(time) / self._units_per_s if tick_s is None else tick_s,
            stop_reasons=tuple(self._stop_reasons),
            hints=self._trace_hints(order),
        )

    def _trace_hints(self, order: npt.NDArray[np.intp]) -> TraceHints | None:
        if not self._hints:
            return None
        rows = self._hints + [NO_HINTS] * (len(self._time) - len(self._hints))
        return TraceHints.of(rows)[order]


def offsets(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """CSR offsets ``(n + 1,)`` from ``(n,)`` counts."""
    result = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=result[1:])
    return result


def run_positions(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of runs laid end to end: for each run ``start, start + 1, … start + count - 1``.

    Args:
        starts: ``(n,)`` first position of each run.
        counts: ``(n,)`` length of each run.

    Returns:
        ``(counts.sum(),)`` positions.
    """
    shift = starts - offsets(counts)[:-1]
    return np.arange(counts.sum(), dtype=np.int64) + np.repeat(shift, counts)


def first_appearance(ids: npt.NDArray[np.integer[Any]], n_ids: int) -> tuple[IntColumn, int]:
    """What ``dense_ids`` does, in linear time, for ids that are small numbers already.

    Args:
        ids: ``(n_accesses,)`` ids from 0 to ``n_ids - 1``.
        n_ids: Their bound.

    Returns:
        ``(n_accesses,)`` int32 ids in order of first appearance, and how many distinct ones there are.
    """
    first = np.full(n_ids, -1, np.int64)
    # Where an index repeats, the last assignment stays; reversed, that is the first appearance.
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    seen = np.flatnonzero(first >= 0)
    number = np.empty(n_ids, np.int32)
    number[seen[np.argsort(first[seen], kind="stable")]] = np.arange(len(seen), dtype=np.int32)
    return number[ids], len(seen)


def _gathered(
    values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], order: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    return values[run_positions(offsets(counts)[:-1][order], counts[order])]


def _renumbered(session: IntColumn) -> IntColumn:
    known = session != UNKNOWN
    result = session.copy()
    result[known] = dense_ids(session[known])[0]
    return result


def _view(values: array[int], dtype: type[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(values, dtype) if values else np.zeros(0, dtype)
