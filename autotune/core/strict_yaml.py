"""YAML as plain data: text, numbers, booleans, null, lists and mappings with text keys, and nothing else.

The tree is built from PyYAML's parse events. No constructor runs, so no tag can name a Python type; anchors, aliases,
duplicate keys, deep nesting and numbers that are not finite are refused while reading, before anything grows.
Plain scalars follow the JSON-like core of YAML 1.2: ``yes`` is text, ``010`` is text, ``1e-9`` is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from autotune.core.errors import AutotuneError
from autotune.core.units import MIB

MAX_FILE_BYTES = MIB
MAX_DEPTH = 24
MAX_NUMBER_CHARS = 40

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_LIKE = re.compile(r"[-+]?[.0-9][-+.0-9eE]*")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# The C parser where PyYAML was built with it: ten times as fast, same events.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_text(path: Path, error: type[AutotuneError], max_bytes: int = MAX_FILE_BYTES) -> str:
    """The UTF-8 text of a file, never more than ``max_bytes`` of it in memory.

    Raises:
        AutotuneError: (as ``error``) the file cannot be read, is larger, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{path} must be a readable file", got=reason) from problem
    return decode(data, error, max_bytes)


def decode(data: bytes, error: type[AutotuneError], max_bytes: int = MAX_FILE_BYTES) -> str:
    """``data`` as UTF-8 text.

    Raises:
        AutotuneError: (as ``error``) it is larger than ``max_bytes`` or not UTF-8.
    """
    if len(data) > max_bytes:
        raise error(f"a file of this kind holds at most {max_bytes} bytes", got="more")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error("a file of this kind is UTF-8 text", got=f"other bytes at offset {problem.start}") from problem


def parse_mapping(text: str, error: type[AutotuneError], max_bytes: int = MAX_FILE_BYTES) -> dict[str, object]:
    """The one mapping that a YAML text holds.

    Args:
        text: One YAML document.
        error: Class of the error to raise.
        max_bytes: Largest size of the text as UTF-8, checked before anything is parsed.

    Raises:
        AutotuneError: (as ``error``) the text is too large, not YAML, not a mapping, or uses a refused feature.
    """
    try:
        size_bytes = len(text.encode("utf-8"))
    except UnicodeEncodeError as problem:
        raise error("YAML text must be Unicode", got=f"half a character at position {problem.start}") from problem
    if size_bytes > max_bytes:
        raise error(f"a file of this kind holds at most {max_bytes} bytes", got=f"{size_bytes} bytes")
    try:
        tree = _Reader(text, error).document()
    except yaml.YAMLError as problem:
        raise error("the text must be valid YAML", got=_one_line(problem)) from problem
    if not isinstance(tree, dict):
        raise error("the text must be one YAML mapping of names to values", got=_kind(tree))
    return tree


class _Reader:
    """Builds one tree from the parse events of ``text``."""

    def __init__(self, text: str, error: type[AutotuneError]) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._error = error

    def document(self) -> object:
        """The only document of the stream; ``None`` for an empty one."""
        next(self._events)  # start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        tree = self._value(next(self._events), 0)
        next(self._events)  # end of the document
        if not isinstance(next(self._events), yaml.StreamEndEvent):
            raise self._error("a file of this kind holds one YAML document", got="several")
        return tree

    def _value(self, event: Any, depth: int) -> object:
        self._refuse_features(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if depth >= MAX_DEPTH:
            raise self._fault(event, f"values may be nested {MAX_DEPTH} deep", "deeper")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(depth)
        return self._mapping(depth)

    def _list(self, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, object]:
        items: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise self._fault(event, "keys must be names", _kind(key))
            if key in items:
                raise self._fault(event, "a key may stand only once in its mapping", _shorten(repr(key)))
            items[key] = self._value(next(self._events), depth + 1)
        return items

    def _scalar(self, event: Any) -> object:
        text: str = event.value
        if not event.implicit[0]:  # quoted or block text
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _NOT_FINITE.fullmatch(text):
            raise self._fault(event, "numbers must be finite", text)
        if len(text) > MAX_NUMBER_CHARS and _NUMBER_LIKE.fullmatch(text):
            raise self._fault(event, f"numbers have at most {MAX_NUMBER_CHARS} characters", f"{len(text)}")
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return self._finite(event, float(text))
        return text

    def _finite(self, event: Any, number: float) -> float:
        if not math.isfinite(number):
            raise self._fault(event, "numbers must be finite", _shorten(event.value))
        return number

    def _refuse_features(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._fault(
                event, "anchors and aliases are not allowed", "one", "write the value out where it is used"
            )
        if getattr(event, "tag", None) is not None:
            raise self._fault(event, "tags are not allowed", _shorten(repr(event.tag)), "write the plain value")

    def _fault(self, event: Any, rule: str, got: str, remedy: str = "") -> AutotuneError:
        return self._error(f"line {event.start_mark.line + 1}: {rule}", got=got, remedy=remedy)


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing", bool: "true or false"}
    return names.get(type(value), "a number")


def _one_line(problem: Exception) -> str:
    return _shorten(" ".join(str(problem).split()), 160)


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
