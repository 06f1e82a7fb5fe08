"""Plain SVG: what a picture needs that has to be drawn where no plotting library is."""

from __future__ import annotations

import html
from collections.abc import Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
# One colour per line, told apart in grey and by those who see colours differently.
LINES = ("#1b6ca8", "#d1495b", "#2a9d5c", "#8a4fa3", "#b07c10", "#555555")
_STYLE = f"""
text {{ font-family: {FONT}; fill: #1c2733; }}
.title {{ font-size: 17px; font-weight: 600; }}
.note, .small {{ font-size: 12px; fill: #51606e; }}
.label {{ font-size: 13px; }}
.value {{ font-size: 15px; font-weight: 600; }}
.axis {{ stroke: #8b98a5; stroke-width: 1; }}
.grid {{ stroke: #dde3e9; stroke-width: 1; }}
"""


def document(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A whole SVG file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{html.escape(title)}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "label", anchor: str = "start") -> str:
    """A line of text; ``kind`` is a class of the style."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line; ``kind`` is a class of the style."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def polyline(points: Sequence[tuple[float, float]], colour: str, *, is_dashed: bool) -> str:
    """A line through points."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if is_dashed else ""
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'


def dot(x: float, y: float, colour: str) -> str:
    """A point."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def rounded(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled cell."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5" fill="{colour}"/>'


def shade(share: float) -> str:
    """A colour between a light green (0) and a light red (1), on which dark text can be read."""
    low, high = (205, 235, 214), (247, 196, 190)
    mixed = [round(a + (b - a) * min(max(share, 0.0), 1.0)) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def ceiling(value: float) -> float:
    """A round number at or above a value, for the end of an axis."""
    step = 10.0 ** (len(str(int(max(value, 1.0)))) - 1) / 2.0
    return step * -(-value // step)
