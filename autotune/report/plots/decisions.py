"""What the chosen setting did over time, and what it cost beside LRU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from autotune.report.formats import TimeUnit, time_unit
from autotune.report.labels import BASELINE
from autotune.report.plots.plot import Plot, mark_x, new_figure
from autotune.search.result import TuneResult, WindowRow

_FOUND = (
    "Every block that a request asked for, by where it was found. KEEP and OFFLOAD are decisions that paid; the rest "
    "was new or had been given up (EVICT) and was computed. The policy was judged on the shaded part, later than what "
    "was tuned on."
)
_MOVED = (
    "Copies made to the host (OFFLOAD) and copies that had to leave it (EVICT). Far more stored than is ever loaded "
    "means that the link works for nothing."
)
_COST = (
    "How many seconds of prefill, loads and exposed stores the chosen setting saved in each window beside LRU. Bars "
    "below zero are windows in which LRU was better."
)
_COST_LRU = "LRU was chosen, so there is no difference to see: the cost of each window is the baseline's own."


def decision_plots(result: TuneResult) -> tuple[Plot, ...]:
    """Where blocks were found, what moved, and the cost beside LRU, per window."""
    if not result.windows:
        return ()
    timeline = _Timeline(result)
    plots = [_found_plot(timeline)]
    if result.sizes.host_blocks:
        plots.append(_moved_plot(timeline))
    return (*plots, _cost_plot(timeline))


@dataclass(frozen=True, slots=True)
class _Timeline:
    """The windows of a result, of which there is at least one, on an axis in a fitting unit of time."""

    result: TuneResult

    @property
    def windows(self) -> tuple[WindowRow, ...]:
        return self.result.windows

    @property
    def width_s(self) -> float:
        if len(self.windows) > 1:
            return self.windows[1].start_s - self.windows[0].start_s
        return max(self.result.trace.span_s - self.windows[0].start_s, 1.0)

    @property
    def end_s(self) -> float:
        return self.windows[-1].start_s + self.width_s

    @property
    def unit(self) -> TimeUnit:
        return time_unit(self.end_s)

    @property
    def centres(self) -> list[float]:
        return [self.in_unit(window.start_s + self.width_s / 2) for window in self.windows]

    def in_unit(self, time_s: float) -> float:
        """Seconds in the unit of the axis."""
        return time_s / self.unit.seconds

    def figure(self, y_title: str) -> Any:
        """An empty figure over time with the held-out part shaded."""
        figure = new_figure(f"time since the first request ({self.unit.name})", y_title)
        start_s = self.result.measured_from_s
        if start_s < self.end_s:
            figure.add_shape(
                type="rect",
                x0=self.in_unit(start_s),
                x1=self.in_unit(self.end_s),
                y0=0,
                y1=1,
                yref="paper",
                layer="below",
                line={"width": 0},
                fillcolor="var(--held-out)",
            )
            mark_x(figure, self.in_unit(start_s), "judged")
        if self.result.fit_until_s < start_s:
            mark_x(figure, self.in_unit(self.result.fit_until_s), "tuned", to_the_left=True)
        figure.update_xaxes(range=[0.0, self.in_unit(self.end_s)], hoverformat=",.1f")
        return figure


def _make_headroom(figure: Any, values: Sequence[float]) -> None:
    """Room above the data for the words beside the vertical lines."""
    lowest, highest = min(0.0, *values), max(0.0, *values)
    height = (highest - lowest) or 1.0
    figure.update_yaxes(range=[lowest - 0.05 * height if lowest < 0.0 else 0.0, highest + 0.18 * height])


def _found_plot(timeline: _Timeline) -> Plot:
    figure = timeline.figure("block accesses per window")
    parts = (
        ("KEEP: found on the device", "keep", [window.device_hit_blocks for window in timeline.windows]),
        ("OFFLOAD: loaded", "offload", [window.loaded_blocks for window in timeline.windows]),
        ("new or after EVICT: computed", "evict", [window.computed_blocks for window in timeline.windows]),
    )
    for name, role, blocks in parts:
        figure.add_trace(
            go.Scatter(
                x=timeline.centres,
                y=blocks,
                name=name,
                stackgroup="found",
                mode="lines",
                line={"color": f"var(--{role})", "width": 1},
                hovertemplate="%{y:,} blocks<extra>" + name + "</extra>",
            )
        )
    _make_headroom(figure, [window.accesses for window in timeline.windows])
    return Plot("found", "Where blocks were found", _FOUND, figure, wide=True)


def _moved_plot(timeline: _Timeline) -> Plot:
    figure = timeline.figure("blocks per window")
    parts = (
        ("stored (OFFLOAD)", "offload", "solid", [window.stored_blocks for window in timeline.windows]),
        ("loaded back", "keep", "dot", [window.loaded_blocks for window in timeline.windows]),
        ("evicted (EVICT)", "evict", "dash", [window.evicted_host_blocks for window in timeline.windows]),
    )
    for name, role, dash, blocks in parts:
        figure.add_trace(
            go.Scatter(
                x=timeline.centres,
                y=blocks,
                name=name,
                mode="lines",
                line={"color": f"var(--{role})", "width": 2, "dash": dash},
                hovertemplate="%{y:,} blocks<extra>" + name + "</extra>",
            )
        )
    _make_headroom(figure, [blocks for *_, series in parts for blocks in series])
    return Plot("moved", "Blocks stored to the host and evicted from it", _MOVED, figure)


def _cost_plot(timeline: _Timeline) -> Plot:
    saved_s = [window.baseline_cost_s - window.cost_s for window in timeline.windows]
    figure = timeline.figure("seconds saved per window (s)")
    figure.add_trace(
        go.Bar(
            x=timeline.centres,
            y=saved_s,
            width=timeline.in_unit(timeline.width_s) * 0.9,
            marker={"color": ["var(--good)" if value >= 0 else "var(--bad)" for value in saved_s]},
            customdata=[[window.cost_s, window.baseline_cost_s] for window in timeline.windows],
            hovertemplate="saved %{y:,.2f} s<br>"
            "cost %{customdata[0]:,.1f} s, LRU %{customdata[1]:,.1f} s<extra></extra>",
        )
    )
    _make_headroom(figure, saved_s)
    figure.update_layout(showlegend=False)
    explanation = _COST_LRU if timeline.result.chosen == BASELINE else _COST
    return Plot("cost", "Seconds saved beside LRU", explanation, figure)
