"""What a recording says about itself in its Parquet schema's metadata, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from autotune.core.trace import Trace, TraceProvenance
from autotune.traces.fields import (
    INT64_MAX,
    MAX_TIME_S,
    Fault,
    Malformed,
    Row,
    checked_integer,
    integer,
    items,
    number,
    parse_object,
    present,
    shown,
    text,
)

HEADER_KEY = b"kv-autotune"
VERSION = "kv-autotune/recording/v1"


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of a ``Trace`` that are no columns."""

    n_blocks: int
    block_tokens: int
    tick_s: float
    stop_reasons: tuple[str, ...]
    provenance: TraceProvenance


def dump_header(trace: Trace) -> bytes:
    """The header of a trace as JSON, the same bytes for the same trace."""
    origin = trace.provenance
    header = {
        "schema": VERSION,
        "n_blocks": trace.n_blocks,
        "block_tokens": trace.block_tokens,
        "tick_s": trace.tick_s,
        "stop_reasons": trace.stop_reasons,
        "provenance": {
            "trace_format": origin.trace_format,
            "paths": origin.paths,
            "sha256": origin.sha256,
            "options": origin.options,
            "skipped_rows": origin.skipped_rows,
        },
    }
    return json.dumps(header, sort_keys=True).encode()


def parse_header(content: bytes) -> Header:
    """The header from JSON.

    Raises:
        Malformed: it is absent, of another version, or a field does not fit.
    """
    if not content:
        raise Malformed(Fault.MISSING_FIELD, f"Parquet metadata must hold {HEADER_KEY.decode()!r}", "nothing")
    try:
        row = parse_object(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(Fault.NOT_UTF8, "the header must be UTF-8", str(error)) from error
    if row.get("schema") != VERSION:
        raise Malformed(Fault.OUT_OF_RANGE, f"the header's schema must be {VERSION}", shown(row.get("schema")))
    return Header(
        n_blocks=integer(row, "n_blocks"),
        block_tokens=integer(row, "block_tokens"),
        tick_s=float(number(row, "tick_s", low=0, high=MAX_TIME_S)),
        stop_reasons=_texts(row, "stop_reasons"),
        provenance=_provenance(present(row, "provenance")),
    )


def _provenance(row: object) -> TraceProvenance:
    if not isinstance(row, dict):
        raise Malformed(Fault.WRONG_TYPE, "provenance must be an object", shown(row))
    return TraceProvenance(
        trace_format=text(row, "trace_format"),
        paths=_texts(row, "paths"),
        sha256=text(row, "sha256"),
        options=tuple((name, _text(value)) for name, value in _pairs(row, "options")),
        skipped_rows=tuple(
            (name, checked_integer(count, "a count of skipped rows", high=INT64_MAX))
            for name, count in _pairs(row, "skipped_rows")
        ),
    )


def _texts(row: Row, name: str) -> tuple[str, ...]:
    return tuple(_text(value) for value in items(row, name))


def _pairs(row: Row, name: str) -> list[tuple[str, Any]]:
    pairs = []
    for pair in items(row, name):
        if not isinstance(pair, list) or len(pair) != 2:
            raise Malformed(Fault.WRONG_TYPE, f"{name} must hold pairs", shown(pair))
        pairs.append((_text(pair[0]), pair[1]))
    return pairs


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed(Fault.WRONG_TYPE, "names and options must be text", shown(value))
    return value
