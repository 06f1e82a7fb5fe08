"""What the chosen setting did over time, and what it cost beside LRU."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from autotune.report.formats import TimeUnit, time_unit
from autotune.report.labels import BASELINE
from autotune.report.plots.plot import Plot, mark_x, new_figure
from autotune.search.result import TuneResult, WindowRow

_FOUND = (
    "Every block that a request asked for, by where it was found. KEEP and OFFLOAD are decisions that paid; the rest was "
    "new or had been given up (EVICT) and was computed. The shaded part was held out: nothing was tuned on it."
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


class _Timeline:
    """Windows with their times in a fitting unit, and the boundary between past and held-out part.

    Args:
        result: A result with at least one window.
    """

    def __init__(self, result: TuneResult) -> None:
        self.result = result
        self.windows: tuple[WindowRow, ...] = result.windows
        self.width_s = _window_s(result)
        self.end_s = self.windows[-1].start_s + self.width_s
        self.unit: TimeUnit = time_unit(self.end_s)
        self.centres = [self.in_unit(window.start_s + self.width_s / 2) for window in self.windows]

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
            mark_x(figure, self.in_unit(start_s), "held out from here")
        if self.result.fit_until_s < start_s:
            mark_x(figure, self.in_unit(self.result.fit_until_s), "tuned up to here")
        figure.update_xaxes(range=[0.0, self.in_unit(self.end_s)], hoverformat=",.1f")
        return figure


def _window_s(result: TuneResult) -> float:
    windows = result.windows
    if len(windows) > 1:
        return windows[1].start_s - windows[0].start_s
    return max(result.trace.span_s - windows[0].start_s, 1.0)


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
    return Plot("found", "Where blocks were found", _FOUND, figure, wide=True)


def _moved_plot(timeline: _Timeline) -> Plot:
    figure = timeline.figure("blocks per window")
    parts = (
        ("OFFLOAD: stored to the host", "offload", "solid", [window.stored_blocks for window in timeline.windows]),
        ("loaded back", "keep", "dot", [window.loaded_blocks for window in timeline.windows]),
        ("EVICT: left the host", "evict", "dash", [window.evicted_host_blocks for window in timeline.windows]),
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
    figure.update_yaxes(rangemode="tozero")
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
            hovertemplate="saved %{y:,.2f} s<br>cost %{customdata[0]:,.1f} s, LRU %{customdata[1]:,.1f} s<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    explanation = _COST_LRU if timeline.result.chosen == BASELINE else _COST
    return Plot("cost", "Cost beside LRU", explanation, figure)
