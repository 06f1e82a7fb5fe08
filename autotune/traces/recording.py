"""Format ``recording``: this project's own traces, as Parquet.

A row is a request: ``arrival_s``, ``input_tokens``, ``output_tokens``, ``session``, ``stop_reason`` and the list
``block_ids``; where clients gave hints, also ``session_end``, ``expected_idle_s`` and ``priority``, -1 = unknown. All
else of a ``Trace`` is in the schema's metadata (see ``recording_header``), so that what is read equals what was
written, provenance included. There is no text of prompts in it.

A folder is read as one stream: its ``*.parquet`` segments in order of name, which share one namespace of ids and one
start of time. The folder that a sidecar keeps, of segments named ``epoch-…``, is read by ``rolling.folder``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from autotune.core.errors import TraceError
from autotune.core.files import replaced_atomically
from autotune.core.trace import Trace, TraceProvenance
from autotune.core.trace_hints import TraceHints
from autotune.traces import files
from autotune.traces.columns import offsets
from autotune.traces.fields import Fault, Malformed
from autotune.traces.intake import checked_on_error
from autotune.traces.options import reader
from autotune.traces.recording_header import HEADER_KEY, Header, dump_header, parse_header
from autotune.traces.rolling.folder import MIN_REQUESTS, NEWEST, is_rolling, read_folder

FORMAT = "recording"
SCHEMA = pa.schema(
    [
        pa.field("arrival_s", pa.float64(), nullable=False),
        pa.field("input_tokens", pa.int32(), nullable=False),
        pa.field("output_tokens", pa.int32(), nullable=False),
        pa.field("session", pa.int32(), nullable=False),
        pa.field("stop_reason", pa.int32(), nullable=False),
        pa.field("block_ids", pa.large_list(pa.field("item", pa.int32(), nullable=False)), nullable=False),
    ]
)
_HINTS = pa.schema(
    [
        pa.field("session_end", pa.int32(), nullable=False),
        pa.field("expected_idle_s", pa.float64(), nullable=False),
        pa.field("priority", pa.int32(), nullable=False),
    ]
)
HINTED_SCHEMA = pa.schema([*SCHEMA, *_HINTS])
_SCALARS = ("arrival_s", "input_tokens", "output_tokens", "session", "stop_reason")


def write_recording(trace: Trace, path: str | Path) -> None:
    """Write a trace so that ``recording:path`` reads back an equal one.

    The file appears whole or not at all: it is written beside its place, flushed, and renamed.

    Args:
        trace: What to write.
        path: The Parquet file; an existing one is replaced.

    Raises:
        TraceError: the file cannot be written.
    """
    columns = [pa.array(getattr(trace, name)) for name in _SCALARS]
    blocks = pa.LargeListArray.from_arrays(trace.block_offsets, trace.block_ids, type=SCHEMA.field("block_ids").type)
    hints = [] if trace.hints is None else [pa.array(getattr(trace.hints, name)) for name in _HINTS.names]
    schema = (HINTED_SCHEMA if hints else SCHEMA).with_metadata({HEADER_KEY: dump_header(trace)})
    table = pa.Table.from_arrays([*columns, blocks, *hints], schema=schema)
    try:
        with replaced_atomically(Path(path).expanduser()) as file:
            pq.write_table(table, file, compression="zstd")
    except OSError as error:
        rule = "a recording must go to a place that can be written"
        raise TraceError(rule, got=str(error), remedy="choose another path") from error


@reader
def read(
    paths: list[str], *, on_error: str = "fail", epoch: int | str | None = None, min_requests: int | None = None
) -> Trace:
    """Read one recording, or several segments as one stream.

    Args:
        paths: Parquet files, globs, folders of ``*.parquet`` segments, or the folder that a sidecar keeps.
        on_error: ``fail`` or ``skip``; a recording has no rows that could be skipped: a damaged one is refused always.
        epoch: Of a sidecar's folder: ``newest`` (the default), a number, or ``separate`` for all.
        min_requests: Requests from which an epoch is long enough for ``newest``; 1000 if not given.

    Raises:
        TraceError: a file is no recording, is damaged, or the segments do not fit together.
    """
    checked_on_error(on_error)
    if len(paths) == 1 and is_rolling(folder := Path(paths[0]).expanduser()):
        return read_folder(folder, NEWEST if epoch is None else epoch, min_requests or MIN_REQUESTS)
    if epoch is not None or min_requests is not None:
        raise TraceError(
            "epoch and min_requests belong to the folder of one sidecar", got=", ".join(paths), remedy="leave them out"
        )
    found = files.expand([_within(path) for path in paths])
    segments = [_segment(file) for file in found]
    return segments[0] if len(segments) == 1 else _joined(found, segments)


def _within(path: str) -> str:
    folder = Path(path).expanduser()
    return str(folder / "*.parquet") if folder.is_dir() else path


def _segment(file: Path) -> Trace:
    try:
        # Opened here, because pyarrow would take a name that holds a scheme for a remote file.
        with file.open("rb") as stream:
            table = pq.ParquetFile(stream).read(use_threads=False)
        if table.schema.remove_metadata() not in (SCHEMA, HINTED_SCHEMA):
            raise Malformed(
                Fault.WRONG_TYPE, "the columns must be those of this version", ", ".join(table.column_names)
            )
        header = parse_header((table.schema.metadata or {}).get(HEADER_KEY, b""))
        trace = _trace(table, header)
        _check(trace)
    except Malformed as fault:
        raise TraceError(f"{file}: {fault.rule}", got=fault.got, remedy="record or convert the trace again") from fault
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        got = " ".join(str(error).split())[:200]
        raise TraceError(f"{file} must be a recording (Parquet)", got=got, remedy="check the format's name") from error
    return trace


def _trace(table: Any, header: Header) -> Trace:
    scalars = {name: np.array(table.column(name).to_numpy()) for name in _SCALARS}
    lists = [chunk for chunk in table.column("block_ids").chunks if len(chunk)]
    counts = [np.diff(chunk.offsets.to_numpy()) for chunk in lists]
    ids = [chunk.flatten().to_numpy() for chunk in lists]
    return Trace(
        **scalars,
        block_offsets=offsets(np.concatenate([np.zeros(0, np.int64), *counts])),
        block_ids=np.concatenate([np.zeros(0, np.int32), *ids]),
        n_blocks=header.n_blocks,
        block_tokens=header.block_tokens,
        provenance=header.provenance,
        tick_s=header.tick_s,
        stop_reasons=header.stop_reasons,
        hints=_hints(table),
    )


def _hints(table: Any) -> TraceHints | None:
    if _HINTS.names[0] not in table.column_names:
        return None
    return TraceHints(**{name: np.array(table.column(name).to_numpy()) for name in _HINTS.names})


def _check(trace: Trace) -> None:
    """Columns come from a file, so what the rest of the project trusts is checked here."""
    rules = (
        ("there must be at least one request", trace.n_requests > 0),
        (
            "arrival_s must be finite and not negative",
            bool(np.all(np.isfinite(trace.arrival_s) & (trace.arrival_s >= 0))),
        ),
        ("arrival_s must not go back", bool(np.all(np.diff(trace.arrival_s) >= 0))),
        ("token counts must not be negative", not (np.any(trace.input_tokens < 0) or np.any(trace.output_tokens < 0))),
        ("session must not be below -1", not np.any(trace.session < -1)),
        ("stop_reason must be -1 or have a name", _all_within(trace.stop_reason, -1, len(trace.stop_reasons))),
        ("block_ids must be below the footprint", _all_within(trace.block_ids, 0, trace.n_blocks)),
        ("a trace of arrivals only must have no block_ids", trace.has_blocks or trace.n_accesses == 0),
        *((rule, False) for rule in (trace.hints.faults if trace.hints is not None else ())),
    )
    for rule, holds in rules:
        if not holds:
            raise Malformed(Fault.OUT_OF_RANGE, rule, "a recording that breaks it")


def _all_within(values: Any, low: int, stop: int) -> bool:
    return bool(np.all((values >= low) & (values < stop)))


def _joined(found: Sequence[Path], segments: Sequence[Trace]) -> Trace:
    first = segments[0]
    remedy = "read only segments of one recording together, in order"
    if any((each.block_tokens, each.stop_reasons) != (first.block_tokens, first.stop_reasons) for each in segments):
        raise TraceError("segments must agree in block size and stop reasons", got="different ones", remedy=remedy)
    for (before, after), file in zip(pairwise(segments), found[1:], strict=True):
        if after.arrival_s[0] < before.arrival_s[-1]:
            raise TraceError("segments must be in order of time", got=f"{file}, which begins earlier", remedy=remedy)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in segments]) for name in (*_SCALARS, "block_ids")
    }
    return replace(
        first,
        **columns,
        block_offsets=offsets(np.concatenate([np.diff(each.block_offsets) for each in segments])),
        n_blocks=max(each.n_blocks for each in segments),
        tick_s=max(each.tick_s for each in segments),
        hints=TraceHints.joined([(each.hints, each.n_requests) for each in segments]),
        provenance=_joint_provenance(found, [each.provenance for each in segments]),
    )


def _joint_provenance(found: Sequence[Path], parts: Sequence[TraceProvenance]) -> TraceProvenance:
    if all(part == parts[0] for part in parts):
        return parts[0]
    digest = hashlib.sha256()
    for file in found:
        digest.update(file.read_bytes())
    return TraceProvenance(FORMAT, tuple(file.name for file in found), digest.hexdigest())
