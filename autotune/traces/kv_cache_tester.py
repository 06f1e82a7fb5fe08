"""Format ``kv-cache-tester``: recorded sessions of coding agents, one JSON document per session.

``requests`` holds the session's requests with ``t`` (s since the session's start), ``in`` and ``out`` (tokens),
``hash_ids`` (one id per full block of ``block_size`` tokens, so ``floor(in / block_size)`` of them) and ``stop``. An
entry of type ``subagent`` has requests of its own, whose times count from the entry's ``t``; they belong to the same
session and run beside it. Requests are sorted by time (``sorted_by = time`` in the provenance where they were not).
Durations (``api_time``, ``think_time``, ``ttft``) have no column and are ignored.

The ids of a document mean nothing in another one (``hash_id_scope: local``). So several documents are not one stream by
themselves: they are refused unless ``merge_span_s`` asks to start the sessions at random times (see ``merge``).

Source: callanjfox/kv-cache-tester, docs/trace_replay_tester.md, "Trace Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.columns import Columns
from autotune.traces.fields import (
    MAX_TIME_S,
    Fault,
    Malformed,
    Row,
    integer,
    integers,
    items,
    number,
    parse_object,
    shown,
    text,
)
from autotune.traces.intake import Intake
from autotune.traces.merge import merge_sessions
from autotune.traces.options import reader

FORMAT = "kv-cache-tester"
_US_PER_S = 1_000_000
_MAX_NESTING = 16


@reader
def read(
    paths: list[str],
    *,
    on_error: str = "fail",
    merge_span_s: float | None = None,
    seed: int = 0,
    block_tokens: int | None = None,
) -> Trace:
    """Read one session, or merge several into one stream.

    Args:
        paths: Files or globs.
        on_error: ``fail`` at the first malformed request, or ``skip`` and count them.
        merge_span_s: Start the sessions at uniformly random times in this span and cut the stream at its end.
        seed: Of the random starts.
        block_tokens: With ``merge_span_s``: coarsen to blocks of so many tokens.

    Raises:
        TraceError: a file cannot be read, a request is malformed, or several files come without ``merge_span_s``.
    """
    intake = Intake(FORMAT, paths, on_error)
    if merge_span_s is not None:
        sessions = (_session(str(file), on_error) for file in intake.files)
        return merge_sessions(sessions, span_s=merge_span_s, seed=seed, block_tokens=block_tokens)
    if len(intake.files) > 1:
        raise TraceError(
            "the block ids of different sessions do not belong together, so session files are no single stream",
            got=f"{len(intake.files)} files",
            remedy="merge them on purpose: kv-autotune trace convert ... --merge-span-s 21600 --seed 0 --out F.parquet",
        )
    return _session(str(intake.files[0]), on_error)


def _session(path: str, on_error: str) -> Trace:
    intake = Intake(FORMAT, [path], on_error)
    file = intake.files[0]
    document = intake.document(file)
    columns = Columns(units_per_s=_US_PER_S, must_be_sorted=False)
    block_tokens, scope = 1, "local"
    if document is not None:
        try:
            session = parse_object(document)
            block_tokens, scope = integer(session, "block_size", low=1), _scope(session)
            entries = items(session, "requests")
        except Malformed as fault:
            intake.reject(file, "session", fault)
            entries = []
        _take(intake, file, columns, entries, block_tokens)
    provenance = intake.provenance(
        sorted_by=None if columns.is_sorted else "time", hash_id_scope=None if scope == "local" else scope
    )
    return columns.trace(provenance, block_tokens=block_tokens)


def _take(intake: Intake, file: Path, columns: Columns, entries: list[object], block_tokens: int) -> None:
    pending: list[tuple[str, float, Iterator[tuple[int, object]]]] = [("requests", 0.0, enumerate(entries))]
    while pending:
        where, start_s, rest = pending[-1]
        index, entry = next(rest, (-1, None))
        if index < 0:
            pending.pop()
            continue
        place = f"{where}[{index}]"
        try:
            nested = _take_entry(columns, entry, start_s, block_tokens)
            if nested is None:
                continue
            if len(pending) == _MAX_NESTING:
                raise Malformed(Fault.OUT_OF_RANGE, f"subagents must be nested at most {_MAX_NESTING} deep", "more")
            pending.append((f"{place}.requests", *nested))
        except Malformed as fault:
            intake.reject(file, place, fault)


def _take_entry(
    columns: Columns, entry: object, start_s: float, block_tokens: int
) -> tuple[float, Iterator[tuple[int, object]]] | None:
    """Take one request; of a subagent, return its start and its entries instead."""
    if not isinstance(entry, dict):
        raise Malformed(Fault.WRONG_TYPE, "a request must be a JSON object", shown(entry))
    time_s = start_s + number(entry, "t", low=0, high=MAX_TIME_S - start_s)
    if entry.get("type") == "subagent":
        return time_s, enumerate(items(entry, "requests"))
    input_tokens, block_ids = integer(entry, "in"), integers(entry, "hash_ids")
    expected = input_tokens // block_tokens
    if len(block_ids) != expected:
        rule = f"hash_ids must hold floor({input_tokens} / {block_tokens}) = {expected} ids"
        raise Malformed(Fault.WRONG_BLOCK_COUNT, rule, f"{len(block_ids)} ids")
    stop = text(entry, "stop") if entry.get("stop") is not None else ""
    columns.add(round(time_s * _US_PER_S), input_tokens, integer(entry, "out"), block_ids, session=0, stop_reason=stop)
    return None


def _scope(session: Row) -> str:
    scope = session.get("hash_id_scope", "local")
    if scope not in {"local", "global"}:
        raise Malformed(Fault.OUT_OF_RANGE, "hash_id_scope must be 'local' or 'global'", shown(scope))
    return str(scope)
