"""A plan as one HTML file: the picture of its capacity, and its tables."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from autotune.advise.plan import Plan
from autotune.core.units import bytes_to_gib
from autotune.report.formats import gib
from autotune.report.html import environment, packaged_text, save_page, security_policy
from autotune.report.plan_facts import headline, plan_tables
from autotune.report.plots.plot import Plot, mark_x, new_figure

_CAPACITY = (
    "From the KV of every query head in every layer for every token, each technique in use multiplies the bytes by its "
    "ratio; in brackets stands what it reduces. The product of all ratios is the last bar: what lies on the devices."
)
_SEQUENCES = (
    "Sequences that fit when a share p of the KV that can be streamed stays on the device. Below the marked p loads "
    "take longer than the computation, so a step gets slower as p falls."
)


def render_plan(plan: Plan) -> str:
    """The page as text; the same plan always gives the same text."""
    plotly, drawing = get_plotlyjs(), packaged_text("plots.js")
    title, *facts = headline(plan)
    return (
        environment()
        .get_template("plan.html.j2")
        .render(
            title=title,
            facts=facts,
            fits=all(fit.fits for fit in plan.fits),
            plots=plan_plots(plan),
            tables=plan_tables(plan),
            notes=plan.notes,
            style=Markup(packaged_text("report.css")),
            scripts=[Markup(plotly), Markup(drawing)],
            security=security_policy(plotly, drawing),
        )
    )


def save_plan(plan: Plan, path: Path) -> None:
    """Write the page.

    Raises:
        ConfigError: the file cannot be written; the old one, if any, is untouched.
    """
    save_page(render_plan(plan), path)


def plan_plots(plan: Plan) -> tuple[Plot, ...]:
    """Capacity by technique, and sequences by share."""
    return (_waterfall_plot(plan), _sequences_plot(plan))


def _waterfall_plot(plan: Plan) -> Plot:
    names = ["every head, layer and token"]
    names += [f"{step.technique.value}<br>({step.factor.value})" for step in plan.waterfall.steps]
    sizes = [plan.waterfall.start_bytes, *(step.bytes_after for step in plan.waterfall.steps)]
    ratios = ["", *(f", × {float(step.ratio):.4g}" for step in plan.waterfall.steps)]
    figure = new_figure("KV of all sequences (GiB)", "")
    figure.add_trace(
        go.Bar(
            x=[bytes_to_gib(size) for size in sizes],
            y=names,
            orientation="h",
            marker={"color": ["var(--lru)", *["var(--tuned)"] * (len(sizes) - 1)]},
            text=[f"{gib(size)}{ratio}" for size, ratio in zip(sizes, ratios, strict=True)],
            textposition="auto",
            hovertemplate="%{text}<extra></extra>",
        )
    )
    figure.update_xaxes(type="log", tickformat=",~g", dtick=1)
    figure.update_yaxes(autorange="reversed", ticks="")
    figure.update_layout(hovermode="closest", showlegend=False)
    return Plot("waterfall", "Capacity by technique, multiplied out", _CAPACITY, figure, wide=True)


def _sequences_plot(plan: Plan) -> Plot:
    finite = [c for c in plan.capacities if c.sequences is not None]
    figure = new_figure("share p of the KV on the device", "sequences that fit")
    figure.add_trace(
        go.Scatter(
            x=[float(c.resident_frac) for c in finite],
            y=[c.sequences for c in finite],
            mode="lines+markers",
            line={"color": "var(--tuned)", "width": 2.5},
            hovertemplate="p %{x}: %{y:,}<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    figure.update_yaxes(rangemode="tozero")
    if plan.step is not None:
        hides = plan.step.hiding_resident_frac
        mark_x(figure, hides, "loads hidden from here on", to_the_left=hides > 0.5)
    return Plot("sequences", "Sequences that fit, by share on the device", _SEQUENCES, figure, wide=True, low=True)
