"""Pictures of the comparison: the gap closed against capacity, and against bytes written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from peers_tables import Row

from autotune.core.files import write_atomically
from autotune.report.streaming import svg

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SHOWN = ("LRU, exclusive", "ARC", "two-hit LRU", "evoke's score", "Marconi's score", "rank rule, tuned")
LEARNED = ("learned once, lazy", "online, lazy")
_COLOURS = dict(zip((*SHOWN, *LEARNED), (*svg.LINES, "#e07a1f", "#000000"), strict=True))
_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 330, 210, 60, 112, 58
_LOW, _HIGH = -50.0, 110.0
_TIMINGS = ("instant", "service")
_WRITES_AT_FRAC = 0.01


def write(rows: Sequence[Row], folder: Path = FOLDER) -> list[Path]:
    """Both pictures into a folder; the files."""
    two = [row for row in rows if row.tiers == "two" and row.gap_closed]
    pictures = {"peers-gap.svg": _gap_picture(two), "peers-writes.svg": _writes_picture(two)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pictures.items():
        write_atomically(folder / name, text)
    return [folder / name for name in pictures]


def _gap_picture(rows: Sequence[Row]) -> str:
    traces = list(dict.fromkeys(row.trace for row in rows))
    shown = [policy for policy in _COLOURS if any(row.policy == policy for row in rows)]
    parts = [
        svg.text(20, 30, "Gap closed against capacity", "title"),
        svg.text(20, 50, "0 = LRU on both tiers, 100 = clairvoyant in seconds; device C1, host 4 × C1", "note"),
        *_legend(shown),
    ]
    for number, trace in enumerate(traces):
        for column, timing in enumerate(_TIMINGS):
            own = [row for row in rows if (row.trace, row.timing) == (trace, timing)]
            if own:
                panel = _Panel(column, number, f"{trace}, {timing}", [row.device_frac for row in own])
                parts += panel.frame("C1, % of the footprint")
                parts += [part for policy in shown for part in panel.curve(policy, own)]
    return svg.document(*_size(len(traces)), "Gap closed against capacity", parts)


def _writes_picture(rows: Sequence[Row]) -> str:
    """Every policy at 1 % as a point: bytes written over LRU's, and gap closed."""
    own = [row for row in rows if row.device_frac == _WRITES_AT_FRAC]
    shown = [policy for policy in _COLOURS if any(row.policy == policy for row in own)]
    traces = list(dict.fromkeys(row.trace for row in own))
    parts = [
        svg.text(20, 30, f"Gap closed against bytes written, C1 = {100 * _WRITES_AT_FRAC:g} %", "title"),
        svg.text(20, 50, "Bytes stored to the host as a share of what LRU with eager stores writes", "note"),
        *_legend(shown),
    ]
    for number, trace in enumerate(traces):
        for column, timing in enumerate(_TIMINGS):
            points = [row for row in own if (row.trace, row.timing) == (trace, timing) and row.policy in shown]
            if points:
                panel = _Panel(column, number, f"{trace}, {timing}", [0.01, 1.6])
                parts += panel.frame("bytes written, % of LRU's", is_log=False)
                parts += [
                    svg.dot(*panel.place(min(_share_written(row), 1.6), mean(row.gap_closed), is_log=False), colour)
                    for row in points
                    for colour in [_COLOURS[row.policy]]
                ]
    return svg.document(*_size(len(traces)), "Gap closed against bytes written", parts)


def _share_written(row: Row) -> float:
    return sum(row.stored_bytes) / max(1.0, sum(row.lru_stored_bytes))


def _size(n_traces: int) -> tuple[int, int]:
    return len(_TIMINGS) * (_LEFT + _WIDTH) + 30, _TOP + n_traces * (_HEIGHT + _BELOW) + 20


def _legend(policies: Sequence[str]) -> list[str]:
    """Names beside points, four in a row."""
    parts = []
    for number, policy in enumerate(policies):
        x, y = 20.0 + 180.0 * (number % 4), 70.0 + 18.0 * (number // 4)
        parts += [svg.dot(x, y, _COLOURS[policy]), svg.text(x + 8, y + 4, policy, "small")]
    return parts


class _Panel:
    """One plot of the grid.

    Args:
        column: From the left.
        row: From the top.
        title: Above it.
        xs: Values whose range the horizontal axis shows.
    """

    def __init__(self, column: int, row: int, title: str, xs: Sequence[float]) -> None:
        self.left = _LEFT + column * (_LEFT + _WIDTH)
        self.top = _TOP + 20 + row * (_HEIGHT + _BELOW)
        self.bottom = self.top + _HEIGHT - 30
        self.title = title
        self.xs = sorted(set(xs))

    def place(self, x: float, gap: float, *, is_log: bool = True) -> tuple[float, float]:
        """Where a value lies in the picture; gaps outside the panel lie on its edge."""
        low, high = self.xs[0], max(self.xs[-1], self.xs[0] * 1.01)
        share = math.log(x / low) / math.log(high / low) if is_log else (x - low) / (high - low)
        height = (min(max(gap, _LOW), _HIGH) - _LOW) / (_HIGH - _LOW)
        return self.left + share * (_WIDTH - 20), self.bottom - height * (self.bottom - self.top)

    def frame(self, x_title: str, *, is_log: bool = True) -> list[str]:
        """Title, axes and grid."""
        parts = [svg.text(self.left, self.top - 8, self.title)]
        for gap in (-50, 0, 50, 100):
            _, y = self.place(self.xs[0], gap, is_log=is_log)
            parts.append(svg.line(self.left, y, self.left + _WIDTH - 20, y, "grid" if gap else "axis"))
            parts.append(svg.text(self.left - 6, y + 4, f"{gap}", "small", "end"))
        for x in self.xs if is_log else (0.01, 0.5, 1.0, 1.5):
            at, _ = self.place(x, 0.0, is_log=is_log)
            parts.append(svg.text(at, self.bottom + 16, f"{100 * x:.3g}", "small", "middle"))
        middle = self.left + _WIDTH / 2
        return [*parts, svg.text(middle, self.bottom + 32, x_title, "note", "middle")]

    def curve(self, policy: str, rows: Sequence[Row]) -> list[str]:
        """The means of a policy over capacity, as a line with points."""
        points = [self.place(row.device_frac, mean(row.gap_closed)) for row in rows if row.policy == policy]
        if not points:
            return []
        colour = _COLOURS[policy]
        line = svg.polyline(points, colour, is_dashed=policy not in LEARNED)
        return [line, *(svg.dot(*point, colour) for point in points)]
