"""Whether probabilities of reuse are true: told against seen."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from autotune.costs.reuse.calibration import Reliability
from autotune.report.plots.plot import Plot, new_figure, plain

_EXPLANATION = (
    "Blocks in groups of equal size by the probability of reuse that the model told; each point is one group, and its "
    "height is the share that really came back, on requests later than those that the model was fitted on. On the "
    "dashed line both agree. The error in the legend is the mean distance from it (ECE)."
)
_COLOURS = ("var(--tuned)", "var(--clairvoyant)", "var(--lru)", "var(--other)")


def reliability_plot(curves: Sequence[tuple[str, Reliability]]) -> Plot:
    """Told against seen.

    Args:
        curves: What each curve is called, and the curve.
    """
    figure = new_figure("probability of reuse that was told", "share of blocks that came back")
    figure.add_trace(
        go.Scatter(
            x=[0.0, 1.0],
            y=[0.0, 1.0],
            mode="lines",
            line={"color": "var(--axis)", "dash": "dash", "width": 1.5},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    for position, (name, curve) in enumerate(curves):
        figure.add_trace(
            go.Scatter(
                x=curve.told.tolist(),
                y=curve.seen.tolist(),
                customdata=curve.n_blocks.tolist(),
                name=f"{plain(name)} (ECE {curve.ece:.3f})",
                mode="lines+markers",
                line={"color": _COLOURS[position % len(_COLOURS)], "width": 2.0},
                hovertemplate="told %{x:.3f}, came back %{y:.3f} of %{customdata:,} blocks<extra></extra>",
            )
        )
    figure.update_xaxes(range=[0.0, 1.0])
    figure.update_yaxes(range=[0.0, 1.0])
    figure.update_layout(hovermode="closest")
    return Plot("reliability", "Are the probabilities of reuse true?", _EXPLANATION, figure)
