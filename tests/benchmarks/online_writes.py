"""Write budgets: what is written, and what it costs in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from online_aims import AIMS
from online_cells import Journal, Run
from online_gap import gap_s, gaps_closed, share, spread
from online_runs import BUDGETS, LAZY, budget_name
from peers_policies import LRU
from tables import table

from autotune.core.files import write_atomically
from autotune.online.settings import OnlineSettings
from autotune.report.streaming import svg

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "online-writes.svg"
_HALF = 0.5
_CURVE_AT = ("instant", 0.01)
_WIDTH, _HEIGHT, _LEFT, _TOP = 300, 220, 60, 90
_GAP_RANGE, _MOST_WRITTEN = (-20.0, 120.0), 1.2


def report(journal: Journal) -> str:
    """Half of LRU's writes at every cell, and the curve of seconds against bytes."""
    runs = [run for run in journal.named(budget_name(_HALF)) if gap_s(journal, run.cell) is not None]
    if not runs:
        return "### Write budget\n\nNo runs."
    return "\n\n".join(
        [
            "### Write budget",
            "Half of the bytes that LRU with eager stores writes, per second of the run (waits included), on average: "
            "`write_bytes_per_s`; store mode lazy.",
            _half_table(journal, runs),
            _verdict(journal, runs),
            f"**Seconds against bytes written**, {_CURVE_AT[0]} timing, C1 = {share(_CURVE_AT[1])}:",
            table(("trace", "budget, % of LRU's", "seeds", "written, % of LRU's", "gap closed"), _curve(journal)),
            f"![Seconds against bytes written](images/{PICTURE.name})",
        ]
    )


def written(journal: Journal, run: Run) -> float:
    """Bytes of the whole run as a share of LRU's."""
    return run.whole_stored_bytes / journal[run.cell, LRU].whole_stored_bytes


def _half_table(journal: Journal, runs: Sequence[Run]) -> str:
    lines = []
    for trace, timing in AIMS:
        own = [run for run in runs if (run.cell.trace, run.cell.timing) == (trace, timing)]
        for frac in sorted({run.cell.device_frac for run in own}):
            same = [run for run in own if run.cell.device_frac == frac]
            costs = [run.whole_cost_s / journal[run.cell, LRU].whole_cost_s - 1.0 for run in same]
            lines.append(
                [
                    trace,
                    timing,
                    share(frac),
                    str(len(same)),
                    spread([100.0 * written(journal, run) for run in same]),
                    spread(gaps_closed(journal, same)),
                    f"{100 * max(costs):+.2f} %",
                ]
            )
    heads = ("trace", "timing", "C1", "seeds", "written, % of LRU's", "gap closed", "total cost, worst seed")
    return table(heads, lines)


def _verdict(journal: Journal, runs: Sequence[Run]) -> str:
    most = max(written(journal, run) for run in runs)
    burst_s = OnlineSettings().write_burst_s
    held = sum(written(journal, run) <= _HALF * (1.0 + burst_s / journal[run.cell, LRU].whole_span_s) for run in runs)
    above = sum(run.cost_s < journal[run.cell, LRU].cost_s for run in runs)
    return (
        f"The budget, with the {burst_s:g} s that may be saved up at the start, holds in {held} of {len(runs)} runs; "
        f"most written: {100 * most:.1f} % of LRU's bytes. Net seconds are above LRU's in {above} of {len(runs)} runs."
    )


def _points(journal: Journal, trace: str) -> list[tuple[str, list[Run]]]:
    names = {LAZY: "none", **{budget_name(part): f"{100 * part:g}" for part in BUDGETS}}
    found = []
    for name, label in names.items():
        same = [run for run in journal.named(name) if (run.cell.timing, run.cell.device_frac) == _CURVE_AT]
        same = [run for run in same if run.cell.trace == trace and gap_s(journal, run.cell) is not None]
        if same:
            found.append((label, same))
    return found


def _traces(journal: Journal) -> list[str]:
    names = dict.fromkeys(trace for trace, _ in AIMS)
    return [trace for trace in names if len(_points(journal, trace)) > 1]


def _curve(journal: Journal) -> list[list[str]]:
    return [
        [
            trace,
            label,
            str(len(runs)),
            spread([100.0 * written(journal, run) for run in runs]),
            spread(gaps_closed(journal, runs)),
        ]
        for trace in _traces(journal)
        for label, runs in _points(journal, trace)
    ]


def draw(journal: Journal, file: Path = PICTURE) -> Path:
    """The curve as a picture, one panel per trace; the file."""
    parts = [
        svg.text(20, 30, "Seconds against bytes written", "title"),
        svg.text(20, 50, "Gap closed (0 = LRU, 100 = clairvoyant in seconds); each point a write budget", "note"),
    ]
    traces = _traces(journal)
    for column, trace in enumerate(traces):
        left = _LEFT + column * (_WIDTH + _LEFT)
        parts += _frame(left, trace)
        points = [
            _place(left, mean(written(journal, run) for run in runs), mean(gaps_closed(journal, runs)))
            for label, runs in _points(journal, trace)
            if label != "none"
        ]
        colour = svg.LINES[column]
        parts += [svg.polyline(points, colour, is_dashed=False), *(svg.dot(*point, colour) for point in points)]
    file.parent.mkdir(parents=True, exist_ok=True)
    width = max(1, len(traces)) * (_WIDTH + _LEFT) + 30
    write_atomically(file, svg.document(width, _TOP + _HEIGHT + 50, "Seconds against bytes written", parts))
    return file


def _place(left: float, part: float, gap: float) -> tuple[float, float]:
    low, high = _GAP_RANGE
    x = left + min(part, _MOST_WRITTEN) / _MOST_WRITTEN * _WIDTH
    return x, _TOP + _HEIGHT - (min(max(gap, low), high) - low) / (high - low) * _HEIGHT


def _frame(left: float, title: str) -> list[str]:
    parts = [svg.text(left, _TOP - 10, title)]
    for gap in range(-20, 121, 20):
        _, y = _place(left, 0.0, gap)
        parts += [svg.line(left, y, left + _WIDTH, y, "grid" if gap else "axis")]
        parts += [svg.text(left - 6, y + 4, str(gap), "small", "end")]
    for percent in (0, 25, 50, 75, 100):
        x, _ = _place(left, percent / 100.0, 0.0)
        parts.append(svg.text(x, _TOP + _HEIGHT + 16, str(percent), "small", "middle"))
    middle = left + _WIDTH / 2
    return [*parts, svg.text(middle, _TOP + _HEIGHT + 34, "bytes written, % of LRU's", "note", "middle")]
