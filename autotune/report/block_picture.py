"""One block under a learned policy as a picture: what its score consists of, and its class's curve at its age."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.core.policy import HorizonParts, LearnedParts
from autotune.core.reuse import ReuseModel

_WIDTH, _HEIGHT = 1000, 510
_TOP, _BOTTOM = 70.0, 370.0
_CURVES = (70.0, 470.0)
_BARS = (700.0, 960.0)
_MOST_BARS = 11
_RANKS_TOP = 440.0
_RANKS = (140.0, 620.0)
_STYLE = """\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1c2733}
.head{font-weight:600}.note{fill:#5b6875;font-size:12px}
.axis{stroke:#9aa5b1}.grid{stroke:#e4e8ec}.other{stroke:#cfd6dd;fill:none}
.curve{stroke:#0b6bcb;fill:none;stroke-width:2.5}.mark{stroke:#c2410c;stroke-width:1.5;stroke-dasharray:5 4}
.up{fill:#0b6bcb}.down{fill:#c2410c}.base{fill:#7a8793}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9aa5b1}.paper{fill:#10161d}
.grid{stroke:#27313b}.other{stroke:#3a4652}.curve{stroke:#5aa9f7}.up{fill:#5aa9f7}.mark{stroke:#f29559}.down{fill:#f29559}}
.paper{fill:#fff}@media (prefers-color-scheme:dark){.paper{fill:#10161d}}"""


@dataclass(frozen=True, slots=True)
class _Logarithmic:
    """Powers of ten on a stretch of the picture."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands; values outside stand at the ends."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self) -> list[float]:
        """Powers of ten within, not more than seven."""
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        step = max(1, math.ceil((last - first + 1) / 7))
        return [10.0**power for power in range(first, last + 1, step)]


def save_picture(model: ReuseModel, told: LearnedParts, title: str, decision: str, path: Path) -> None:
    """Write the picture as SVG, or as a page that holds it.

    Args:
        model: The model.
        told: What it makes of the block.
        title: Which block it is.
        decision: What is decided, in a sentence.
        path: A file that ends in ``.svg`` or ``.html``.

    Raises:
        ConfigError: the file has another ending or cannot be written.
    """
    if path.suffix not in (".svg", ".html"):
        raise ConfigError("a picture is written to a file that ends in .svg or .html", got=path.name)
    picture = block_svg(model, told, title, decision)
    if path.suffix == ".html":
        picture = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>{picture}</html>'
    try:
        write_atomically(path, picture + "\n")
    except OSError as problem:
        raise ConfigError(f"{path} must be writable", got=problem.strerror or problem) from problem


def block_svg(model: ReuseModel, told: LearnedParts, title: str, decision: str) -> str:
    """The picture as SVG; equal arguments give equal text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        _text(20, 24, title, "head"),
        _text(20, 44, decision, "note"),
        *_curve_lines(model, told),
        *_bar_lines(told.near),
        *_rank_lines(told),
        "</svg>",
    ]
    return "\n".join(parts)


def _curve_lines(model: ReuseModel, told: LearnedParts) -> list[str]:
    positive = model.hazard_per_s[model.hazard_per_s > 0.0]
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (0.1, 1.0)
    x = _Logarithmic(model.edges_s[0] / 2.0, model.edges_s[-1] * 2.0, *_CURVES)
    y = _Logarithmic(low / 1.2, high * 1.2, _BOTTOM, _TOP)
    lines = [_text(_CURVES[0], _TOP - 8, f"Hazard of reuse by age: class {told.block_class} among all 16", "note")]
    lines += [
        f'<line class="grid" x1="{_CURVES[0]}" x2="{_CURVES[1]}" y1="{y.at(tick)}" y2="{y.at(tick)}"/>'
        + _text(_CURVES[0] - 6, y.at(tick) + 4, f"{tick:g}", "note", "end")
        for tick in y.ticks()
    ]
    lines += [_text(x.at(tick), _BOTTOM + 18, f"{tick:g}", "note", "middle") for tick in x.ticks()]
    lines += [_step_line(model, k, x, y, "other") for k in range(len(model.hazard_per_s)) if k != told.block_class]
    lines.append(_step_line(model, told.block_class, x, y, "curve"))
    at = x.at(told.age_s) if told.age_s > 0.0 else _CURVES[0]
    middle = sum(_CURVES) / 2
    beside, anchor = (at - 6, "end") if at > middle else (at + 6, "start")
    lines += [
        f'<line class="mark" x1="{at}" x2="{at}" y1="{_TOP}" y2="{_BOTTOM}"/>',
        _text(beside, _TOP + 14, f"{told.age_s:g} s", "note", anchor),
        f'<line class="axis" x1="{_CURVES[0]}" x2="{_CURVES[1]}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>',
        _text(middle, _BOTTOM + 38, "age since the last use (s); reuses per block and second", "note", "middle"),
    ]
    return lines


def _step_line(model: ReuseModel, row: int, x: _Logarithmic, y: _Logarithmic, name: str) -> str:
    edges = np.repeat([x.low, *model.edges_s, x.high], 2)[1:-1].tolist()
    heights = np.repeat(model.hazard_per_s[row], 2).tolist()
    points = " ".join(f"{x.at(age)},{y.at(hazard)}" for age, hazard in zip(edges, heights, strict=True))
    return f'<polyline class="{name}" points="{points}"/>'


def _bar_lines(near: HorizonParts) -> list[str]:
    shown = [("average block", near.base, "base")]
    shown += [(" × ".join(part.features), part.log_odds, "") for part in near.parts[: _MOST_BARS - 1]]
    rest = sum(part.log_odds for part in near.parts[_MOST_BARS - 1 :])
    if len(near.parts) >= _MOST_BARS:
        shown.append((f"{len(near.parts) - _MOST_BARS + 1} more", rest, ""))
    largest = max(abs(value) for _, value, _ in shown) or 1.0
    zero = sum(_BARS) / 2
    scale = (_BARS[1] - _BARS[0]) / 2.9 / largest
    head = f"Near score {near.log_odds:+.2f}: reuse within {near.horizon_s:g} s, P = {near.probability:.3g}"
    lines = [_text(520, _TOP - 8, head, "note")]
    for position, (label, value, name) in enumerate(shown):
        at, width = _TOP + 8 + 24 * position, round(abs(value) * scale, 2)
        start = zero if value >= 0.0 else zero - width
        lines.append(_text(_BARS[0] - 16, at + 12, label, "", "end"))
        kind = name or ("up" if value >= 0.0 else "down")
        lines.append(f'<rect class="{kind}" x="{round(start, 2)}" y="{at}" width="{width}" height="15"/>')
        end, anchor = (zero + width + 5, "start") if value >= 0.0 else (zero - width - 5, "end")
        lines.append(_text(end, at + 12, f"{value:+.2f}".replace("-", "−"), "note", anchor))
    lines.append(f'<line class="axis" x1="{zero}" x2="{zero}" y1="{_TOP}" y2="{_BOTTOM}"/>')
    lines.append(_text(zero, _BOTTOM + 18, "log odds of reuse", "note", "middle"))
    return lines


def _rank_lines(told: LearnedParts) -> list[str]:
    """One bar per tier for the rank, and the rank that a block needs to stay as a line across it; or its key."""
    if told.key is not None:
        key = told.key
        words = (
            f"Key: {key.key_s:+,.4g} s from now = last use {key.recency_s:+,.4g} s, odds {key.odds_shift_s:+,.4g} s, "
            f"cost {key.value_shift_s:+,.4g} s"
        )
        lines = [_text(20, _RANKS_TOP - 8, words.replace("-", "−"), "note")]
        for position, there in enumerate(each for each in key.tiers if each.price_s is not None):
            needed = "room for every block" if there.has_room else f"the next to leave has {there.price_s:+,.4g} s"
            text = f"{there.tier.name.lower()}: {needed}".replace("-", "−")
            lines.append(_text(20, _RANKS_TOP + 14 + 20 * position, text, "note"))
        return lines
    lines = [_text(20, _RANKS_TOP - 8, "Rank: expected µs saved per s of keeping; line: the next to leave", "note")]
    figures = [1e6 * value for rank in told.ranks for value in (rank.saved_s_per_s, rank.price_s_per_s or 0.0)]
    positive = [value for value in figures if value > 0.0] or [1.0]
    x = _Logarithmic(min(positive) / 4.0, max(positive) * 1.6, *_RANKS)
    for position, rank in enumerate(told.ranks):
        top = _RANKS_TOP + 4 + 28 * position
        saved = 1e6 * rank.saved_s_per_s
        lines.append(_text(_RANKS[0] - 12, top + 13, rank.tier.name.lower(), "", "end"))
        end = x.at(saved) if saved > 0.0 else x.start
        kind = "up" if rank.pays else "down"
        lines.append(f'<rect class="{kind}" x="{x.start}" y="{top}" width="{round(end - x.start, 2)}" height="17"/>')
        words = f"{saved:.4g}"
        if rank.price_s_per_s is not None:
            price = 1e6 * rank.price_s_per_s
            at = x.at(price) if price > 0.0 else x.start
            lines.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{top - 4}" y2="{top + 21}"/>')
            words += f", price {price:.4g}"
        lines.append(_text(_RANKS[1] + 12, top + 13, words, "note"))
    return lines


def _text(x: float, y: float, text: str, name: str = "", anchor: str = "start") -> str:
    return f'<text x="{round(x, 2)}" y="{round(y, 2)}" class="{name}" text-anchor="{anchor}">{escape(text)}</text>'
