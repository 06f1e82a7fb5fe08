"""Records in a file of JSON lines, one appended as soon as it is there, so that work goes on where it stopped."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class Record(DataclassInstance, Protocol):
        """A dataclass that knows what tells it from the others of its file."""

        @property
        def key(self) -> Hashable:
            """What that is."""


T = TypeVar("T", bound="Record")


class Records(Generic[T]):
    """The records of a file; of several with one key the last counts.

    Args:
        path: The file; it need not exist.
        parse: Makes a record of a line's object; a ``TypeError`` or ``KeyError`` says that it has other fields.
    """

    def __init__(self, path: Path, parse: Callable[[dict[str, Any]], T]) -> None:
        self._path = path
        self._by_key = {record.key: record for record in _read(path, parse)}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def __getitem__(self, key: Hashable) -> T:
        return self._by_key[key]

    @property
    def records(self) -> list[T]:
        """All of them."""
        return list(self._by_key.values())

    def add(self, record: T) -> None:
        """Append one record."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            start = b"" if file.read() in (b"", b"\n") else b"\n"  # an interruption may have cut the last line off
            file.write(start + json.dumps(asdict(record)).encode() + b"\n")
        self._by_key[record.key] = record


def _read(path: Path, parse: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Records of a file. Lines that were cut off, or that another version of the benchmark wrote, are left out."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    cut_off = others = 0
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            cut_off += 1
            continue
        try:
            record = parse(row)
        except (TypeError, KeyError):
            others += 1
            continue
        yield record
    if cut_off:
        print(f"{path}: {cut_off} lines that an interruption cut off are left out", file=sys.stderr)
    if others:
        print(f"{path}: {others} lines with other fields, of another version, are left out", file=sys.stderr)
