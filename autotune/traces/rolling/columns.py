"""A segment's rows as columns, from a journal or from Parquet, and as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace_hints import NO_HINTS, TraceHints
from autotune.traces.columns import offsets
from autotune.traces.fields import Fault, Malformed
from autotune.traces.rolling.epochs import JOURNAL, EpochFacts, dump_facts, parse_facts
from autotune.traces.rolling.journal import FACTS, HINTED, HINTS, REQUEST, ROW, WORD, frames

if TYPE_CHECKING:
    import pyarrow as pa

_FACTS_KEY = b"kv-autotune-segment"
_WORDS_KEY = b"kv-autotune-words"
_REMEDY = "move the file away; the epochs beside it stay readable"
ROW_TYPE = np.dtype(
    [
        ("time_s", "<f8"),
        ("input_tokens", "<i4"),
        ("output_tokens", "<i4"),
        ("session", "<i8"),
        ("stop_reason", "<i4"),
        ("device_blocks", "<i4"),
        ("host_blocks", "<i4"),
        ("n_blocks", "<u4"),
    ]
)
HINTS_TYPE = np.dtype([("session_end", "<i4"), ("expected_idle_s", "<f8"), ("priority", "<i4")])
_NAMES = [name for name in ROW_TYPE.names or () if name != "n_blocks"]
_HINT_NAMES = list(HINTS_TYPE.names or ())
if (ROW_TYPE.itemsize, HINTS_TYPE.itemsize) != (ROW.size, HINTS.size):
    raise ImportError("the row of a journal and its columns must be of one size")


@dataclass(frozen=True, slots=True)
class SegmentColumns:
    """The rows of one segment.

    Attributes:
        facts: Of its epoch.
        rows: ``(n_requests,)`` structured, fields of ``ROW_TYPE``.
        block_ids: ``(n_accesses,)`` uint64 numbers of blocks, request after request in prefix order.
        words: What ``stop_reason`` counts in; -1 = unknown.
        is_whole: Whether the file was read to its end; ``False`` = its end was cut, as by a crash.
        hints: What clients told; ``None`` = nobody told anything.
    """

    facts: EpochFacts
    rows: npt.NDArray[np.void]
    block_ids: npt.NDArray[np.uint64]
    words: tuple[str, ...]
    is_whole: bool = True
    hints: TraceHints | None = None


def read_segment(path: Path) -> SegmentColumns | None:
    """A segment of either form; ``None`` for a journal whose writer died before it had a header.

    Raises:
        TraceError: the file is damaged.
        FileNotFoundError: it is gone: compacted, or too old.
    """
    try:
        columns = _read_journal(path) if path.suffix == JOURNAL else _read_parquet(path)
        if columns is not None:
            _check(columns)
    except Malformed as fault:
        raise TraceError(f"{path}: {fault.rule}", got=fault.got, remedy=_REMEDY) from fault
    return columns


def _read_journal(path: Path) -> SegmentColumns | None:
    content = path.read_bytes()
    facts: EpochFacts | None = None
    words: list[str] = []
    rows, ids, hints, read_bytes = bytearray(), bytearray(), bytearray(), 8
    for frame in frames(content):
        read_bytes += 8 + len(frame)
        kind, rest = frame[:1], frame[1:]
        if facts is None:
            if kind != FACTS:
                raise Malformed(Fault.DAMAGED_FILE, "a journal must begin with its facts", repr(kind))
            facts = parse_facts(rest)
        elif kind == WORD:
            words.append(rest.decode("utf-8", "replace"))
        elif kind in (REQUEST, HINTED) and len(rest) >= (start := ROW.size + HINTS.size * (kind == HINTED)):
            rows += rest[: ROW.size]
            hints += rest[ROW.size : start] or HINTS.pack(*NO_HINTS)
            ids += rest[start:]
        else:
            raise Malformed(Fault.DAMAGED_FILE, "a journal must hold words and requests", repr(kind))
    if facts is None:
        return None
    if len(ids) % 8:
        raise Malformed(Fault.DAMAGED_FILE, "block ids must have eight bytes each", f"{len(ids)} bytes")
    return SegmentColumns(
        facts,
        np.frombuffer(bytes(rows), ROW_TYPE),
        np.frombuffer(bytes(ids), "<u8").astype(np.uint64),
        tuple(words),
        read_bytes == len(content),
        _told(np.frombuffer(bytes(hints), HINTS_TYPE)),
    )


def _told(rows: npt.NDArray[np.void]) -> TraceHints | None:
    """Hints of the rows of a journal; ``None`` where all are unknown."""
    if all(bool(np.all(rows[name] == -1)) for name in _HINT_NAMES):
        return None
    return TraceHints(*(np.ascontiguousarray(rows[name]) for name in _HINT_NAMES))


def write_parquet(columns: SegmentColumns, file: Any) -> None:
    """Write a segment as Parquet, the same bytes for the same rows and version of pyarrow.

    Args:
        columns: The rows.
        file: Binary file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    hints = columns.hints
    schema = _schema(hinted=hints is not None)
    words = "\n".join(columns.words).encode()
    blocks = pa.LargeListArray.from_arrays(
        offsets(columns.rows["n_blocks"].astype(np.int64)),
        columns.block_ids.view(np.int64),
        type=schema.field("block_ids").type,
    )
    arrays = [pa.array(np.ascontiguousarray(columns.rows[name])) for name in _NAMES]
    told = [] if hints is None else [pa.array(getattr(hints, name)) for name in _HINT_NAMES]
    metadata = {_FACTS_KEY: dump_facts(columns.facts), _WORDS_KEY: words}
    table = pa.Table.from_arrays([*arrays, blocks, *told], schema=schema.with_metadata(metadata))
    pq.write_table(table, file, compression="zstd")


def _read_parquet(path: Path) -> SegmentColumns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as stream:
            table = pq.ParquetFile(stream).read(use_threads=False)
        if table.schema.remove_metadata() not in (_schema(), _schema(hinted=True)):
            raise Malformed(Fault.WRONG_TYPE, "the columns must be those of a segment", ", ".join(table.column_names))
        return _columns(table)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        got = " ".join(str(error).split())[:200]
        raise Malformed(Fault.DAMAGED_FILE, "a segment must be Parquet", got) from error


def _columns(table: pa.Table) -> SegmentColumns:
    metadata = table.schema.metadata or {}
    facts = parse_facts(metadata.get(_FACTS_KEY, b""))
    words = metadata.get(_WORDS_KEY, b"").decode("utf-8", "replace")
    rows = np.zeros(table.num_rows, ROW_TYPE)
    for name in _NAMES:
        rows[name] = table.column(name).to_numpy()
    lists = [chunk for chunk in table.column("block_ids").chunks if len(chunk)]
    if lists:
        rows["n_blocks"] = np.concatenate([np.diff(chunk.offsets.to_numpy()) for chunk in lists])
    ids = np.concatenate([np.zeros(0, np.int64), *(chunk.flatten().to_numpy() for chunk in lists)])
    hinted = _HINT_NAMES[0] in table.column_names
    told = TraceHints(*(np.array(table.column(name).to_numpy()) for name in _HINT_NAMES)) if hinted else None
    return SegmentColumns(facts, rows, ids.view(np.uint64), tuple(words.split("\n")) if words else (), hints=told)


def _schema(*, hinted: bool = False) -> pa.Schema:
    import pyarrow as pa

    types = {"<f8": pa.float64(), "<i4": pa.int32(), "<i8": pa.int64()}
    fields = [pa.field(name, types[ROW_TYPE[name].str], nullable=False) for name in _NAMES]
    told = [pa.field(name, types[HINTS_TYPE[name].str], nullable=False) for name in _HINT_NAMES] if hinted else []
    item = pa.field("item", pa.int64(), nullable=False)  # the bits of the unsigned numbers
    return pa.schema([*fields, pa.field("block_ids", pa.large_list(item), nullable=False), *told])


def _check(columns: SegmentColumns) -> None:
    """What the rest of the project trusts is checked here, as it comes from a file."""
    rows = columns.rows
    times = rows["time_s"]
    counts = [rows[name] for name in ("input_tokens", "output_tokens", "device_blocks", "host_blocks")]
    reasons = rows["stop_reason"]
    rules = (
        ("times must be finite and not negative", bool(np.all(np.isfinite(times) & (times >= 0.0)))),
        ("times must not go back", bool(np.all(np.diff(times) >= 0.0))),
        ("counts must not be negative", not any(np.any(count < 0) for count in counts)),
        ("stop reasons must have a word", bool(np.all((reasons >= -1) & (reasons < len(columns.words))))),
        ("each request's blocks must be there", int(rows["n_blocks"].sum(dtype=np.int64)) == len(columns.block_ids)),
        *((rule, False) for rule in (columns.hints.faults if columns.hints is not None else ())),
    )
    for rule, holds in rules:
        if not holds:
            raise Malformed(Fault.OUT_OF_RANGE, rule, "a segment that breaks it")
