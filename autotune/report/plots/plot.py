"""One plot with its words, and the looks that all of them share.

Colours are names of CSS variables, such as ``var(--tuned)``; the page puts in their values, light or dark, when it
draws.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from autotune.report.labels import policy_label

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
_ROLES = {
    "lru": "lru",
    "tuned": "tuned",
    "learned": "tuned",
    "clairvoyant": "clairvoyant",
    "clairvoyant_seconds": "clairvoyant",
}
_DASHES = {"clairvoyant": "dash", "lru": "dot"}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot and what a reader needs to understand it.

    Attributes:
        key: Identifier in the page.
        title: What it shows.
        explanation: What to see in it, for somebody who is no expert.
        figure: The plotly figure.
        wide: Whether it takes the whole width of the page.
        low: Whether half the usual height is enough.
    """

    key: str
    title: str
    explanation: str
    figure: Any
    wide: bool = False
    low: bool = False

    def json(self) -> str:
        """The figure as JSON that is safe inside a ``script`` element; equal figures give equal text."""
        # Plotly would use another encoder where one is installed, whose text may differ.
        text: str = pio.to_json(self.figure, engine="json", remove_uids=True)
        return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclass(frozen=True, slots=True)
class PlotGroup:
    """Plots that answer one question.

    Attributes:
        key: Identifier in the page.
        title: The question, as a heading.
        empty: What to say where there is no plot.
        plots: In the order of the page.
    """

    key: str
    title: str
    empty: str
    plots: tuple[Plot, ...] = field(default=())


def new_figure(x_title: str, y_title: str) -> Any:
    """An empty figure with the report's looks."""
    figure = go.Figure()
    figure.update_layout(
        template={},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13, "color": "var(--text)"},
        margin={"l": 56, "r": 14, "t": 12, "b": 46},
        hovermode="x unified",
        hoverlabel={
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--text)", "family": FONT},
        },
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "x": 0.0,
            "y": 1.0,
            "yanchor": "bottom",
            "bgcolor": "rgba(0,0,0,0)",
        },
        xaxis=_axis(x_title),
        yaxis=_axis(y_title),
    )
    return figure


def mark_x(figure: Any, x: float, text: str, *, to_the_left: bool = False, at_the_top: bool = True) -> None:
    """A vertical line with words beside it; ``x`` is in data units, on logarithmic axes too."""
    figure.add_shape(
        type="line",
        x0=x,
        x1=x,
        y0=0,
        y1=1,
        yref="paper",
        line={"color": "var(--mark)", "width": 1.5, "dash": "dash"},
        label={
            "text": f" {plain(text)} ",
            "textangle": 0,
            "textposition": "end" if at_the_top else "start",
            "xanchor": "right" if to_the_left else "left",
            "yanchor": "top" if at_the_top else "bottom",
            "font": {"color": "var(--mark)", "size": 12},
        },
    )


def make_room_for_texts(figure: Any, values: Sequence[float]) -> None:
    """Let horizontal bars, the first at the top, leave room for the figures beside their ends."""
    lowest, highest = min(0.0, *values), max(0.0, *values)
    room = 0.2 * ((highest - lowest) or 1.0)
    figure.update_xaxes(range=[lowest - room if lowest < 0.0 else 0.0, highest + room])
    figure.update_yaxes(autorange="reversed", ticks="")


def policy_line(name: str) -> dict[str, Any]:
    """Colour and dash of a policy: the same in every plot."""
    return {"color": f"var(--{_ROLES.get(name, 'other')})", "dash": _DASHES.get(name, "solid"), "width": 2.5}


def plain(text: str) -> str:
    """A text of unknown origin, which plotly would otherwise read as markup."""
    return html.escape(text, quote=False)


def policy_name(name: str) -> str:
    """A policy's name for a legend."""
    return plain(policy_label(name))


def _axis(title: str) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 13}},
        "automargin": True,
        "gridcolor": "var(--grid)",
        "linecolor": "var(--axis)",
        "zerolinecolor": "var(--axis)",
        "tickcolor": "var(--axis)",
        "ticks": "outside",
        "showline": True,
        "separatethousands": True,
    }
