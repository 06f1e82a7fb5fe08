"""What more memory would buy: hits and seconds against capacity, and the value of the next GiB."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from autotune.core.units import bytes_to_gib
from autotune.report.formats import duration
from autotune.report.plots.plot import Plot, make_room_for_texts, mark_x, new_figure, policy_line, policy_name
from autotune.search.result import Curve, TuneResult

_TIERS = ("device", "host", "disk")
_HITS = (
    "Each point is a simulation of the held-out part with that much {tier} memory, the rest as budgeted. The setting "
    "is the one tuned for your budget: where LRU passes it, tune again for that size. The clairvoyant knows the "
    "future; the space below it is what a better rule could win without more memory."
)
_SECONDS = (
    "The same simulations, counted in seconds that requests did not have to wait: prefill avoided, less loads and "
    "exposed stores. Where a curve is flat, more {tier} memory buys nothing; below zero, the cache does harm. This "
    "clairvoyant counts hits; the table shows the better of that and one that counts seconds."
)
_MARGINAL = (
    "What one more GiB would save in each hour of this traffic, under the chosen setting. Buy where the bar is long; a "
    "bar near zero says that this tier is large enough. Turnover: the time in which a tier replaces its whole content."
)


def capacity_plots(result: TuneResult) -> tuple[Plot, ...]:
    """Two plots per tier that has curves, then the value of the next GiB."""
    plots = []
    for tier in _TIERS:
        curves = [curve for curve in result.curves if curve.tier == tier and curve.capacity_bytes]
        if curves:
            budget_bytes = result.budgets_bytes[_TIERS.index(tier)]
            plots += [_hit_plot(tier, curves, budget_bytes), _seconds_plot(tier, curves, budget_bytes)]
    if result.marginal:
        plots.append(_marginal_plot(result))
    return tuple(plots)


def _hit_plot(tier: str, curves: list[Curve], budget_bytes: int) -> Plot:
    figure = _capacity_figure(tier, "hit rate, all tiers (%)", curves, budget_bytes)
    for curve in curves:
        _add_curve(figure, curve, tuple(100.0 * share for share in curve.hit_frac), "%{y:.1f} %")
    return Plot(f"hits-{tier}", f"Hit rate against {tier} memory", _HITS.format(tier=tier), figure)


def _seconds_plot(tier: str, curves: list[Curve], budget_bytes: int) -> Plot:
    figure = _capacity_figure(tier, "net seconds saved (s)", curves, budget_bytes)
    for curve in curves:
        _add_curve(figure, curve, curve.net_seconds_saved, "%{y:,.1f} s")
    return Plot(f"seconds-{tier}", f"Net seconds saved against {tier} memory", _SECONDS.format(tier=tier), figure)


def _capacity_figure(tier: str, y_title: str, curves: list[Curve], budget_bytes: int) -> Any:
    figure = new_figure(f"{tier} memory for KV (GiB)", y_title)
    figure.update_xaxes(hoverformat=",.3g")
    figure.update_yaxes(rangemode="tozero")
    if all(capacity > 0 for curve in curves for capacity in curve.capacity_bytes):
        figure.update_xaxes(type="log", dtick="D2", tickformat=",~g")
    if budget_bytes:
        is_far_right = 2.0 * budget_bytes > max(curve.capacity_bytes[-1] for curve in curves)
        mark_x(figure, bytes_to_gib(budget_bytes), "your budget", to_the_left=is_far_right, at_the_top=False)
    return figure


def _add_curve(figure: Any, curve: Curve, values: tuple[float, ...], hover: str) -> None:
    name = policy_name(curve.policy)
    figure.add_trace(
        go.Scatter(
            x=[bytes_to_gib(capacity) for capacity in curve.capacity_bytes],
            y=list(values),
            name=name,
            mode="lines+markers",
            marker={"size": 5},
            line=policy_line(curve.policy),
            hovertemplate=f"{name} {hover}<extra></extra>",
        )
    )


def _marginal_plot(result: TuneResult) -> Plot:
    figure = new_figure("seconds saved per GiB and hour", "")
    labels = [f"{value.tier}<br>(turnover {duration(value.turnover_s)})" for value in result.marginal]
    figure.add_trace(
        go.Bar(
            x=[value.seconds_per_gib_hour for value in result.marginal],
            y=labels,
            orientation="h",
            width=0.55,
            marker={"color": "var(--tuned)"},
            text=[f"{value.seconds_per_gib_hour:,.3g} s" for value in result.marginal],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{text} per GiB and hour<extra></extra>",
        )
    )
    figure.update_layout(hovermode="closest", showlegend=False)
    make_room_for_texts(figure, [value.seconds_per_gib_hour for value in result.marginal])
    return Plot("marginal", "Value of the next GiB", _MARGINAL, figure, wide=True, low=True)
