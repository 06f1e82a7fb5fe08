"""Rows of CSV files by the names in their header."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.core.errors import TraceError
from autotune.traces.fields import Fault, Malformed
from autotune.traces.intake import Intake


def each_row(intake: Intake, names: Sequence[str], take: Callable[[list[str]], None], *, delimiter: str = ",") -> None:
    """Hand the named fields of every row of every file to ``take``, which may raise ``Malformed``.

    Other columns are ignored. A quoted field must not span lines.

    Args:
        intake: The files.
        names: Columns wanted, in the order in which ``take`` gets them.
        take: Called with the fields' text, stripped.
        delimiter: One character.

    Raises:
        TraceError: a header lacks a column (always), or a row is malformed (unless those are skipped).
    """
    for file in intake.files:
        lines = intake.lines(file)
        first = next(lines, None)
        if first is None:
            continue
        header = [name.strip() for name in _header(file, first[1], delimiter)]
        positions = [_position(file, header, name) for name in names]
        for number, line in lines:
            try:
                row = split(line, delimiter)
                if len(row) != len(header):
                    raise Malformed(Fault.NOT_CSV, f"a row must have {len(header)} fields", f"{len(row)}")
                take([row[position].strip() for position in positions])
            except Malformed as fault:
                intake.reject(file, number, fault)


def split(line: str, delimiter: str = ",") -> list[str]:
    """Fields of one line.

    Raises:
        Malformed: quotes do not match, or a field is too long.
    """
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise Malformed(Fault.NOT_CSV, "a row must be one line of CSV", str(error)) from error


def _header(file: Path, line: str, delimiter: str) -> list[str]:
    try:
        return split(line, delimiter)
    except Malformed as fault:
        raise TraceError(f"{file}:1: {fault.rule}", got=fault.got, remedy="correct the header") from fault


def _position(file: Path, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        raise TraceError(
            f"{file}:1: the header must name the column {name!r} once",
            got=", ".join(header)[:200],
            remedy="check the format's name and its column options",
        )
    return header.index(name)
