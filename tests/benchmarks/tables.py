"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are as wide as their longest cell."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))} |" for line in lines)


def ranged(values: Sequence[float], digits: int) -> str:
    """The median, and the range where it does not round to one figure."""
    ordered = sorted(values)
    low, middle, high = (f"{value:.{digits}f}" for value in (ordered[0], ordered[len(ordered) // 2], ordered[-1]))
    return middle if low == high else f"{middle} ({low} to {high})"
