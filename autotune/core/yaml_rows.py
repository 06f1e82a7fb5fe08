"""Rows of numbers in YAML: short rows on one line, long ones wrapped, and what each stands for beside it."""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH = 118

Row = Sequence[float]


def number(value: float, decimals: int | None) -> str:
    """One number: with as many decimals as needed up to ``decimals``, or the shortest text that reads back the same.

    YAML 1.1 wants a point before an exponent.
    """
    if decimals is None:
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    text = f"{value:.{decimals}f}".rstrip("0")
    text = text + "0" if text.endswith(".") else text
    return text.removeprefix("-") if float(text) == 0.0 else text


def row_lines(
    key: str, value: tuple[float | Row, ...], indent: str, decimals: int | None, notes: Sequence[str]
) -> list[str]:
    """The lines of one field that holds numbers or rows of numbers.

    Args:
        key: Name of the field.
        value: Numbers, or rows of them.
        indent: Spaces before the name.
        decimals: As :func:`number` takes them.
        notes: What each number or row stands for, written beside it; empty = nothing is said.
    """
    numbers = [item for item in value if not isinstance(item, Sequence)]
    if len(numbers) == len(value) and not notes:
        return _wrapped(f"{indent}{key}: ", [number(item, decimals) for item in numbers], indent)
    lines = [f"{indent}{key}:"]
    for position, item in enumerate(value):
        start = f"{indent}  - "
        if isinstance(item, Sequence):
            lines += _wrapped(start, [number(entry, decimals) for entry in item], f"{indent}  ")
        else:
            lines.append(start + number(item, decimals))
        lines[-1] += f"  # {notes[position]}" if notes else ""
    return lines


def _wrapped(start: str, texts: list[str], indent: str) -> list[str]:
    """A list in brackets, over as many lines as it takes."""
    lines = [f"{start}["]
    for position, text in enumerate(texts):
        word = text + (", " if position < len(texts) - 1 else "]")
        if len(lines[-1]) + len(word.rstrip()) > _WIDTH:
            lines.append(f"{indent}  ")
        lines[-1] += word
    if not texts:
        lines[-1] += "]"
    return [line.rstrip() for line in lines]
