"""How long blocks wait for their next use."""

from __future__ import annotations

import math
from itertools import pairwise

import plotly.graph_objects as go

from autotune.report.formats import duration
from autotune.report.plots.plot import Plot, mark_x, new_figure
from autotune.search.result import TraceSummary, TuneResult

_EXPLANATION = (
    "Of all uses of a block that was there before, how many came after which wait; a bar at the left end holds those "
    "at the same moment by the trace's clock. A dashed line is a tier's turnover, the time in which it replaces its "
    "whole content: blocks to its right waited longer, and LRU has lost them by then."
)
_TICKS_S = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000)


def reuse_plots(result: TuneResult) -> tuple[Plot, ...]:
    """The distribution of reuse gaps; nothing where no block was reused."""
    trace = result.trace
    total = sum(trace.gap_counts)
    if not total:
        return ()
    edges_s = _positive_edges_s(trace)
    shares = [100.0 * count / total for count in trace.gap_counts]
    figure = new_figure("time between two uses of a block", "share of all reuse (%)")
    # A step line: each bin is as wide as it is, and the last edge closes it.
    figure.add_trace(
        go.Scatter(
            x=edges_s,
            y=[*shares, 0.0],
            customdata=[*_bin_texts(trace), ""],
            mode="lines",
            line={"shape": "hv", "color": "var(--tuned)", "width": 1.5},
            fill="tozeroy",
            hovertemplate="%{customdata}: %{y:.2f} % of reuse<extra></extra>",
        )
    )
    ticks_s = [tick for tick in _TICKS_S if edges_s[0] <= tick <= edges_s[-1]]
    figure.update_xaxes(type="log", tickvals=ticks_s, ticktext=[_tick(tick) for tick in ticks_s])
    figure.update_layout(hovermode="x", showlegend=False)
    for value in result.marginal:
        if edges_s[0] < value.turnover_s < edges_s[-1]:
            mark_x(figure, value.turnover_s, value.tier)
    title = f"Reuse gaps ({100 * trace.reuse_frac:.1f} % of block accesses are reuse)"
    return (Plot("reuse-gaps", title, _EXPLANATION, figure, wide=True),)


def _positive_edges_s(trace: TraceSummary) -> list[float]:
    """The edges with a first one that a logarithmic axis can show; the bin from 0 is drawn as wide as the next."""
    edges_s = list(trace.gap_edges_s)
    if edges_s[0] <= 0.0:
        ratio = edges_s[2] / edges_s[1] if len(edges_s) > 2 else 10.0
        edges_s[0] = edges_s[1] / max(ratio, math.sqrt(10.0))
    return edges_s


def _bin_texts(trace: TraceSummary) -> list[str]:
    return [f"{duration(low)} to {duration(high)}" for low, high in pairwise(trace.gap_edges_s)]


def _tick(time_s: float) -> str:
    if time_s >= 86_400:
        return f"{time_s / 86_400:g} d"
    if time_s >= 3_600:
        return f"{time_s / 3_600:g} h"
    if time_s >= 60:
        return f"{time_s / 60:g} min"
    return f"{time_s:g} s" if time_s >= 1 else f"{1e3 * time_s:g} ms"
