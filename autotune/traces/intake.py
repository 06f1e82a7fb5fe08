"""One reading of a trace: what becomes of malformed rows, and the provenance of what was read.

Malformed rows end the reading (``on_error="fail"``) or are left out and counted by kind (``on_error="skip"``); nothing
is repaired. Unknown fields of a row are no fault: they are ignored, because formats grow.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from autotune.core.errors import TraceError
from autotune.core.trace import TraceProvenance
from autotune.core.units import MIB
from autotune.traces import files
from autotune.traces.fields import Fault, Malformed, Row, parse_object


class OnError(StrEnum):
    """What becomes of a malformed row."""

    FAIL = "fail"
    SKIP = "skip"


def checked_on_error(on_error: str) -> OnError:
    """``on_error`` as one of the two values there are.

    Raises:
        TraceError: it is neither.
    """
    try:
        return OnError(on_error)
    except ValueError as error:
        raise TraceError("on_error must be 'fail' or 'skip'", got=repr(on_error), remedy="choose one") from error


class Intake:
    """Files of one format on their way in.

    Args:
        trace_format: Name of the reader.
        paths: Paths and globs as given.
        on_error: ``fail`` or ``skip``.

    Attributes:
        files: The files that the paths name, in reading order.

    Raises:
        TraceError: no file matches, or ``on_error`` is neither of the two.
    """

    def __init__(self, trace_format: str, paths: Sequence[str], on_error: str) -> None:
        self._on_error = checked_on_error(on_error)
        self._trace_format = trace_format
        self._digest = hashlib.sha256()
        self._skipped: Counter[Fault] = Counter()
        self.files = files.expand(paths)

    def each_object(self, take: Callable[[Row], None]) -> None:
        """Hand every line of every file, parsed as a JSON object, to ``take``, which may raise ``Malformed``."""
        self.each_line(lambda line: take(parse_object(line)))

    def each_line(self, take: Callable[[str], None]) -> None:
        """Hand every line that is not blank to ``take``, which may raise ``Malformed``."""
        for file in self.files:
            for number, line in self.lines(file):
                try:
                    take(line)
                except Malformed as fault:
                    self.reject(file, number, fault)

    def lines(self, file: Path) -> Iterator[tuple[int, str]]:
        """Numbered lines of one file, from 1, blank ones left out; faults below the level of rows are dealt with."""
        number = 0
        is_empty = True
        try:
            for number, raw in enumerate(files.read_lines(file, self._digest), start=1):
                try:
                    line = _decoded(raw, first=number == 1)
                except Malformed as fault:
                    is_empty = False
                    self.reject(file, number, fault)
                    continue
                if line:
                    is_empty = False
                    yield number, line
        except files.UnreadableError as error:
            self.reject(file, number + 1, _damaged(error))
            return
        if is_empty:
            self.reject(file, 1, Malformed(Fault.EMPTY_FILE, "a trace file must hold at least one row", "nothing"))

    def document(self, file: Path) -> str | None:
        """The whole text of one file, or None if it is malformed and malformed ones are skipped."""
        try:
            content = files.read_document(file, self._digest)
            if not content.strip():
                raise Malformed(Fault.EMPTY_FILE, "a trace file must hold at least one row", "nothing")
            return _utf8(content.removeprefix(b"\xef\xbb\xbf"))
        except Malformed as fault:
            self.reject(file, 1, fault)
        except files.UnreadableError as error:
            self.reject(file, 1, _damaged(error))
        except files.TooLongError:
            rule = f"a file must hold at most {files.MAX_DOCUMENT_BYTES // MIB} MiB"
            self.reject(file, 1, Malformed(Fault.TOO_LONG, rule, "more"))
        return None

    def reject(self, file: Path, where: int | str, fault: Malformed) -> None:
        """Deal with a malformed row as ``on_error`` says.

        Args:
            file: The file.
            where: Line number, or a place within a document such as ``requests[3]``.
            fault: What is wrong.

        Raises:
            TraceError: malformed rows are not to be skipped.
        """
        if self._on_error is OnError.FAIL:
            raise TraceError(
                f"{file}:{where}: {fault.rule}",
                got=fault.got,
                remedy="correct the file, or leave such rows out with --on-error skip",
            )
        self._skipped[fault.kind] += 1

    def provenance(self, **options: object) -> TraceProvenance:
        """Provenance of what has been read so far; options that are None did not change anything and are left out."""
        return TraceProvenance(
            trace_format=self._trace_format,
            paths=tuple(file.name for file in self.files),
            sha256=self._digest.hexdigest(),
            options=tuple(sorted((name, str(value)) for name, value in options.items() if value is not None)),
            skipped_rows=tuple(sorted((kind.value, count) for kind, count in self._skipped.items())),
        )


def _decoded(raw: bytes | None, *, first: bool) -> str:
    if raw is None:
        raise Malformed(Fault.TOO_LONG, f"a line must hold at most {files.MAX_LINE_BYTES // MIB} MiB", "a longer line")
    # Tools on Windows put a byte order mark in front.
    return _utf8(raw.removeprefix(b"\xef\xbb\xbf") if first else raw).strip()


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(Fault.NOT_UTF8, "text must be UTF-8", f"byte {error.start}: {error.reason}") from error


def _damaged(error: Exception) -> Malformed:
    return Malformed(Fault.DAMAGED_FILE, "a compressed file must be whole", str(error) or type(error).__name__)
