"""Time of a decode step over p and d: a table of cells beside lines, prediction and measurement in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.core.units import MS_PER_S
from autotune.report.streaming import svg

_CELL_WIDTH, _CELL_HEIGHT = 104, 58
_LEFT, _TOP = 88, 92
_PLOT_WIDTH = 400


@dataclass(frozen=True, slots=True)
class SurfacePoint:
    """One setting.

    Attributes:
        resident_frac: p.
        prefetch_depth: d.
        predicted_s: Its decode step by the recurrence.
        measured_s: As measured.
    """

    resident_frac: float
    prefetch_depth: int
    predicted_s: float
    measured_s: float

    @property
    def error_frac(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1.0


def surface_svg(points: Sequence[SurfacePoint], title: str, note: str) -> str:
    """The picture as an SVG file.

    Args:
        points: One for every pair of their shares and depths.
        title: Of the picture.
        note: A line under it that says what was run.
    """
    shares = sorted({point.resident_frac for point in points})
    depths = sorted({point.prefetch_depth for point in points})
    height = max(_TOP + len(shares) * _CELL_HEIGHT + 60, 420)
    plot_left = _LEFT + len(depths) * _CELL_WIDTH + 90
    parts = [
        svg.text(20, 30, title, "title"),
        svg.text(20, 52, note, "note"),
        *_cells(points, shares, depths),
        *_lines(points, depths, plot_left, height - 70),
    ]
    return svg.document(plot_left + _PLOT_WIDTH + 30, height, title, parts)


def _cells(points: Sequence[SurfacePoint], shares: list[float], depths: list[int]) -> list[str]:
    fastest = min(point.measured_s for point in points)
    slowest = max(point.measured_s for point in points)
    parts = [
        svg.text(_LEFT + (column + 0.5) * _CELL_WIDTH, _TOP - 10, f"d = {depth}", "label", "middle")
        for column, depth in enumerate(depths)
    ]
    for row, share in enumerate(shares):
        middle = _TOP + (row + 0.5) * _CELL_HEIGHT
        parts.append(svg.text(_LEFT - 10, middle + 4, f"p = {share:g}", "label", "end"))
    for point in points:
        x = _LEFT + depths.index(point.prefetch_depth) * _CELL_WIDTH
        y = _TOP + shares.index(point.resident_frac) * _CELL_HEIGHT
        share_of_range = (point.measured_s - fastest) / ((slowest - fastest) or 1.0)
        parts += [
            svg.rounded(x + 2, y + 2, _CELL_WIDTH - 4, _CELL_HEIGHT - 4, svg.shade(share_of_range)),
            svg.text(x + _CELL_WIDTH / 2, y + 25, f"{_ms(point.measured_s)} ms", "value", "middle"),
            svg.text(
                x + _CELL_WIDTH / 2,
                y + 44,
                f"{_ms(point.predicted_s)} ({100 * point.error_frac:+.0f} %)",
                "small",
                "middle",
            ),
        ]
    below = _TOP + len(shares) * _CELL_HEIGHT + 24
    return [*parts, svg.text(_LEFT, below, "measured; below it the recurrence and its error", "note")]


def _lines(points: Sequence[SurfacePoint], depths: list[int], left: float, bottom: float) -> list[str]:
    top_ms = svg.ceiling(MS_PER_S * max(max(point.measured_s, point.predicted_s) for point in points))

    def place(share: float, seconds: float) -> tuple[float, float]:
        return left + share * _PLOT_WIDTH, bottom - (bottom - _TOP) * MS_PER_S * seconds / top_ms

    parts = []
    for quarter in range(5):
        y = bottom - (bottom - _TOP) * quarter / 4
        parts.append(svg.line(left, y, left + _PLOT_WIDTH, y, "grid" if quarter else "axis"))
        parts.append(svg.text(left - 8, y + 4, f"{top_ms * quarter / 4:g}", "small", "end"))
    for share in sorted({point.resident_frac for point in points}):
        parts.append(svg.text(left + share * _PLOT_WIDTH, bottom + 18, f"{share:g}", "small", "middle"))
    parts.append(
        svg.text(left + _PLOT_WIDTH / 2, bottom + 38, "p, share of layers that stay on the device", "note", "middle")
    )
    parts.append(svg.text(left, _TOP - 10, "ms per decode step; solid: measured, dashed: predicted", "note"))
    for number, depth in enumerate(depths):
        colour = svg.LINES[number % len(svg.LINES)]
        own = sorted((point for point in points if point.prefetch_depth == depth), key=lambda p: p.resident_frac)
        measured = [place(point.resident_frac, point.measured_s) for point in own]
        parts.append(svg.polyline(measured, colour, is_dashed=False))
        parts.append(svg.polyline([place(p.resident_frac, p.predicted_s) for p in own], colour, is_dashed=True))
        parts += [svg.dot(x, y, colour) for x, y in measured]
        legend_x = left + _PLOT_WIDTH - 70
        parts.append(svg.dot(legend_x, _TOP + 14 + 20 * number, colour))
        parts.append(svg.text(legend_x + 12, _TOP + 18 + 20 * number, f"d = {depth}"))
    return parts


def _ms(seconds: float) -> str:
    return f"{MS_PER_S * seconds:.1f}"
