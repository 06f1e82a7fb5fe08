"""What the last model of an online run says: whether its probabilities are true, and what each class is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from autotune.core.reuse import gain_table
from autotune.core.reuse.gain import bin_ages_s
from autotune.costs.reuse import NotEnough
from autotune.costs.reuse.calibration import Reliability, reliability
from autotune.online.loop import Learned
from autotune.report.formats import duration
from autotune.report.plots.plot import Plot, mark_x, new_figure
from autotune.report.plots.reliability import reliability_plot
from autotune.search.online_run import OnlineRun

_MIN_JUDGED_BLOCKS = 2000.0
_N_QUARTILES = 4
# From the blocks that are least likely to come back soon to those that are likeliest.
_COLOURS = ("var(--evict)", "var(--offload)", "var(--clairvoyant)", "var(--tuned)")
_QUARTERS = ("lowest", "low", "high", "highest")
_OPACITIES = (0.3, 0.5, 0.75, 1.0)
_GAINS = (
    "What a second of keeping a block on the host is worth, in expected reuses, for each of the 16 classes: the colour "
    "is the quarter of the near score; the stronger a line, the higher the quarter of the far score. Times the seconds "
    "that a reuse saves, this is the rank; the smallest leaves first. LRU would draw one falling line for all. Where "
    "lines cross, two blocks change places as they wait."
)


def model_plots(run: OnlineRun) -> tuple[Plot, ...]:
    """Reliability and gain curves; nothing where nothing was in force."""
    if run.result.in_force is None:
        return ()
    curves = later_reliability(run)
    gains = _gain_plot(run.result.in_force)
    return (gains, replace(reliability_plot(curves), wide=True)) if curves else (gains,)


def later_reliability(run: OnlineRun) -> tuple[tuple[str, Reliability], ...]:
    """Told against seen for the last model that was followed by enough requests, on those later ones."""
    rows = run.rows()
    now_s = float(rows.time_s.max(initial=run.origin.trace.arrival_s[-1]))  # requests may wait beyond the last arrival
    for fit in reversed(run.result.fits):
        later = rows.take(np.flatnonzero(rows.time_s > fit.fitted_at_s))
        found = [(head.horizon_s, reliability(head, later, now_s)) for head in (fit.model.near, fit.model.far)]
        judged = [(horizon_s, curve) for horizon_s, curve in found if not isinstance(curve, NotEnough)]
        if len(judged) == len(found) and all(curve.n_blocks.sum() >= _MIN_JUDGED_BLOCKS for _, curve in judged):
            return tuple((f"within {duration(horizon_s)}", curve) for horizon_s, curve in judged)
    return ()


def _gain_plot(learned: Learned) -> Plot:
    model = learned.model
    figure = new_figure("age since the last use (s)", "expected reuses per block-second")
    ages_s = bin_ages_s(model.edges_s).tolist()
    gains = gain_table(model, learned.device_age_s)
    for position, row in enumerate(gains.tolist()):
        near, far = divmod(position, _N_QUARTILES)
        figure.add_trace(
            go.Scatter(
                x=ages_s,
                y=[value if value > 0.0 else None for value in row],
                name=f"{_QUARTERS[near]} near score",
                legendgroup=str(near),
                showlegend=far == _N_QUARTILES - 1,
                mode="lines",
                line={"color": _COLOURS[near], "width": 1.0 + 0.5 * far},
                opacity=_OPACITIES[far],
                hovertemplate=f"class {position}: %{{y:.2e}} per s at %{{x:,.3g}} s<extra></extra>",
            )
        )
    figure.update_xaxes(type="log", tickformat="~g", dtick=1)
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    figure.update_layout(hovermode="closest")
    if learned.device_age_s > 0.0:
        mark_x(figure, learned.device_age_s, "D", at_the_top=False)
    return Plot("gains", "What keeping a block is worth, by class and age", _GAINS, figure, wide=True)
