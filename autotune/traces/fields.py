"""Typed access to the fields of one row; whatever does not fit is ``Malformed`` and says why."""

from __future__ import annotations

import json
import math
import re
from array import array
from enum import StrEnum
from typing import Any

import numpy as np

Row = dict[str, Any]

INT32_MAX = int(np.iinfo(np.int32).max)
INT64_MAX = int(np.iinfo(np.int64).max)
MAX_TIME_S = 1e10  # some 300 years, so that any time fits int64 nanoseconds
_SHOWN_CHARS = 80
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,19}(\.[0-9]{1,18})?")


class Fault(StrEnum):
    """Kinds of malformed rows, as counted in a trace's provenance."""

    NOT_JSON = "malformed JSON"
    NOT_CSV = "malformed CSV"
    NOT_UTF8 = "not UTF-8"
    NOT_FINITE = "NaN or infinity"
    TOO_LONG = "line too long"
    MISSING_FIELD = "missing field"
    WRONG_TYPE = "wrong type"
    OUT_OF_RANGE = "out of range"
    WRONG_BLOCK_COUNT = "wrong number of block ids"
    TIME_GOES_BACK = "time goes back"
    EMPTY_FILE = "empty file"
    DAMAGED_FILE = "damaged file"


class Malformed(Exception):  # noqa: N818 a fact about a row, turned into a TraceError with file and line by Intake
    """A row breaks a rule of its format.

    Args:
        kind: Under which name it is counted when skipped.
        rule: What must hold.
        got: What came instead; values from a file go through ``shown``.
    """

    def __init__(self, kind: Fault, rule: str, got: str) -> None:
        super().__init__(rule)
        self.kind = kind
        self.rule = rule
        self.got = got


def shown(value: object) -> str:
    """A value as text on one line, without control characters and cut to a length that fits a message."""
    try:
        # Slicing first: the repr of a hostile value may be as large as the row.
        text = repr(value[:_SHOWN_CHARS]) if isinstance(value, str | bytes | list) else repr(value)
    except (ValueError, RecursionError):  # more digits, or more levels, than Python prints
        return f"one of type {type(value).__name__} that is too large to show"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def parse_object(text: str) -> Row:
    """A JSON object from text.

    Raises:
        Malformed: it is no JSON, holds NaN or infinity, or is not an object.
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError as error:
        raise Malformed(Fault.NOT_JSON, "JSON must not be nested this deep", "too many levels") from error
    except ValueError as error:
        raise Malformed(Fault.NOT_JSON, "a row must be JSON", _one_line(error)) from error
    if not isinstance(value, dict):
        raise Malformed(Fault.WRONG_TYPE, "a row must be a JSON object", shown(value))
    return value


def present(row: Row, name: str) -> Any:
    """The value of a field that must be there.

    Raises:
        Malformed: it is not.
    """
    try:
        return row[name]
    except KeyError as error:
        raise Malformed(Fault.MISSING_FIELD, f"{name} must be given", "no such field") from error


def integer(row: Row, name: str, *, low: int = 0, high: int = INT32_MAX) -> int:
    """An integer field from ``low`` to ``high``; booleans and floats are not integers.

    Raises:
        Malformed: missing, of another type, or out of range.
    """
    return checked_integer(present(row, name), name, low=low, high=high)


def checked_integer(value: object, name: str, *, low: int = 0, high: int = INT32_MAX) -> int:
    """An integer value from ``low`` to ``high``.

    Raises:
        Malformed: of another type, or out of range.
    """
    if type(value) is not int:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be an integer", shown(value))
    if not low <= value <= high:
        raise Malformed(Fault.OUT_OF_RANGE, f"{name} must be from {low} to {high}", shown(value))
    return value


def number(row: Row, name: str, *, low: float, high: float) -> int | float:
    """A finite number field from ``low`` to ``high``.

    Raises:
        Malformed: missing, no number, not finite, or out of range.
    """
    value = present(row, name)
    if type(value) is not int and type(value) is not float:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be a number", shown(value))
    if not isinstance(value, int) and not math.isfinite(value):
        raise Malformed(Fault.NOT_FINITE, f"{name} must be finite", shown(value))
    if not low <= value <= high:
        raise Malformed(Fault.OUT_OF_RANGE, f"{name} must be from {low:g} to {high:g}", shown(value))
    return value


def text(row: Row, name: str) -> str:
    """A text field.

    Raises:
        Malformed: missing or no text.
    """
    value = present(row, name)
    if not isinstance(value, str):
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be text", shown(value))
    return value


def items(row: Row, name: str) -> list[Any]:
    """A list field.

    Raises:
        Malformed: missing or no list.
    """
    value = present(row, name)
    if not isinstance(value, list):
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be a list", shown(value))
    return value


def integers(row: Row, name: str) -> array[int]:
    """A field that is a list of 64-bit integers, as an array of type ``q``.

    Raises:
        Malformed: missing, no list, or an element is no integer or beyond 64 bits.
    """
    values = items(row, name)
    if not {int}.issuperset(map(type, values)):
        odd = next(value for value in values if type(value) is not int)
        raise Malformed(Fault.WRONG_TYPE, f"{name} must hold integers only", shown(odd))
    try:
        return array("q", values)
    except OverflowError as error:
        raise Malformed(Fault.OUT_OF_RANGE, f"{name} must hold 64-bit integers", "a larger one") from error


def integer_text(value: str, name: str, *, low: int = 0, high: int = INT32_MAX) -> int:
    """An integer from the text of a CSV field: decimal ASCII digits with an optional minus sign.

    Raises:
        Malformed: no such text, or out of range.
    """
    if _INTEGER.fullmatch(value) is None:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be an integer", shown(value))
    return checked_integer(int(value), name, low=low, high=high)


def decimal_text(value: str, name: str, *, per_unit: int) -> int:
    """A decimal number such as ``17.25`` from a CSV field, as an exact count of ``1 / per_unit``, rounded down.

    Raises:
        Malformed: no such text (NaN, infinities, signs and exponents are none), or the count exceeds 64 bits.
    """
    if _DECIMAL.fullmatch(value) is None:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be a decimal number that is not negative", shown(value))
    whole, _, fraction = value.partition(".")
    count = int(whole) * per_unit + int(fraction or "0") * per_unit // 10 ** len(fraction)
    return checked_integer(count, name, high=INT64_MAX)


def _refuse_constant(name: str) -> None:
    raise Malformed(Fault.NOT_FINITE, "numbers must be finite", name)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:_SHOWN_CHARS]


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
