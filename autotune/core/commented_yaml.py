"""A model as YAML that explains itself: every field's description stands above it as a comment.

The bytes depend on the values alone. Numbers that are hard to read get a second form beside them (GiB, GB/s, percent).
Reading the text back with :mod:`autotune.core.strict_yaml` gives the same values, and so does ``yaml.safe_load``.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime
from enum import Enum

import yaml
from pydantic import BaseModel

from autotune.core.units import GIB, MIB
from autotune.core.validation import Strict
from autotune.core.yaml_rows import number, row_lines

_WIDTH = 118
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that some YAML reader takes for something else than text.
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def to_commented_yaml(model: BaseModel, header: str = "") -> str:
    """The YAML text of a model.

    Args:
        model: Fields may be models, tuples of models, and scalars; every field that a reader should understand has a
            ``description``.
        header: Text for a comment at the top.
    """
    lines = [*_comment(header, ""), ""] if header else []
    lines += _model_lines(model, "", set(), spaced=True)
    return "\n".join(lines) + "\n"


def scalar(value: object) -> str:
    """One value on one line."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, int):  # true and false are int, too
        return json.dumps(value)
    if isinstance(value, float):
        return number(value, None)
    if isinstance(value, datetime):
        return _quoted(utc_text(value))
    return _text(str(value))


def utc_text(moment: datetime) -> str:
    """A time zone aware moment in UTC as ISO 8601 with a ``Z``."""
    return moment.isoformat().replace("+00:00", "Z")


def _model_lines(model: BaseModel, indent: str, explained: set[tuple[str, str]], *, spaced: bool = False) -> list[str]:
    """Lines of one mapping; a field that occurs often is explained where it occurs first."""
    lines: list[str] = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is None and getattr(type(model), "leave_out_none", False):
            continue
        if spaced and lines:
            lines.append("")
        if field.description and (name, field.description) not in explained:
            explained.add((name, field.description))
            lines += _comment(field.description, indent)
        lines += _rows(model, name, value, indent) or _field_lines(field.alias or name, value, indent, explained)
    return lines


def _rows(model: BaseModel, name: str, value: object, indent: str) -> list[str]:
    """Lines of a field that the model declares to hold rows of numbers, or has notes on; none for others."""
    if not isinstance(model, Strict) or not isinstance(value, tuple) or not value:
        return []
    notes = model.row_notes(name)
    if name in model.number_rows:
        return row_lines(name, value, indent, model.number_rows[name], notes)
    if not notes:
        return []
    return [f"{indent}{name}:", *(f"{indent}  - {scalar(v)}  # {n}" for v, n in zip(value, notes, strict=True))]


def _field_lines(key: str, value: object, indent: str, explained: set[tuple[str, str]]) -> list[str]:
    if isinstance(value, BaseModel):
        return [f"{indent}{key}:", *_model_lines(value, indent + "  ", explained)]
    if isinstance(value, tuple):
        if not value:
            return [f"{indent}{key}: []"]
        return [f"{indent}{key}:", *(line for item in value for line in _item_lines(item, indent + "  ", explained))]
    return [f"{indent}{key}: {scalar(value)}{_readable(key, value)}"]


def _item_lines(item: object, indent: str, explained: set[tuple[str, str]]) -> Iterator[str]:
    if not isinstance(item, BaseModel):
        yield f"{indent}- {scalar(item)}"
        return
    lines = _model_lines(item, indent + "  ", explained)
    start = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
    yield from (indent + line.lstrip() for line in lines[:start])
    yield f"{indent}- {lines[start].lstrip()}"
    yield from lines[start + 1 :]


def _comment(text: str, indent: str) -> list[str]:
    """Comment lines; paragraphs of ``text`` stay apart."""
    prefix = f"{indent}# "
    lines: list[str] = []
    for paragraph in text.split("\n"):
        wrapped = textwrap.wrap(paragraph, _WIDTH - len(prefix), break_long_words=False, break_on_hyphens=False)
        lines += [prefix + line for line in wrapped] or [prefix.rstrip()]
    return lines


def _readable(key: str, value: object) -> str:
    """A trailing comment with the number in the unit that people use for it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if key.endswith("_bytes") and value >= MIB:
        return f"  # {value / GIB:.6g} GiB"
    if key.endswith("bytes_per_s"):
        return f"  # {value / 1e9:.6g} GB/s"
    if key.endswith("_frac"):
        return f"  # {100 * value:.4g} %"
    return ""


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return _quoted(value)


def _quoted(value: str) -> str:
    quoted: str = yaml.safe_dump(value, default_style='"', width=sys.maxsize)
    return quoted.rstrip("\n")
