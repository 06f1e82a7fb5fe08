"""Which way an online run took over time, and the seconds that it saved beside each other way."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from autotune.core.types import Arm
from autotune.report.formats import TimeUnit, time_unit
from autotune.report.online.facts import arm_name, lru_names
from autotune.report.plots.plot import Plot, new_figure, plain
from autotune.search.online_run import OnlineRun
from autotune.sim.result import CacheResult, Seconds

_POINTS = 400
ARM_COLOURS = {Arm.LRU: "var(--lru)", Arm.HAZARD: "var(--tuned)", Arm.FIXED_KEY: "var(--other)"}
_LRU_LINES = (("var(--lru)", "dot"), ("var(--offload)", "dot"), ("var(--lru)", "solid"))  # stock, staged, joint
_ARMS = (
    "It begins in LRU. The guard changes the way only where shadow caches, which see the same requests, have shown the "
    "other to be better by more than their error. Each mark is a fit, on what had passed by then."
)
_REGRET = (
    "Seconds of prefill, loads and exposed stores that the run has saved beside each other way, added up since the "
    "start: above zero the run is ahead, and a line that falls says that the other way would have been better then. "
    "The lines of what was learned without a guard show what caution cost, or was worth."
)


def timeline_plots(run: OnlineRun) -> tuple[Plot, ...]:
    """The ways taken, and the regret beside each."""
    return (_arms_plot(run), _regret_plot(run))


def _starts_s(run: OnlineRun) -> Seconds:
    """``(n_requests,)`` seconds since the first request at which each got its turn."""
    trace = run.origin.trace
    starts_s: Seconds = trace.arrival_s + run.result.cache.wait_s - trace.arrival_s[0]
    return starts_s


def _figure(run: OnlineRun, y_title: str) -> tuple[Any, TimeUnit]:
    span_s = float(_starts_s(run)[-1])
    unit = time_unit(span_s)
    figure = new_figure(f"time since the first request ({unit.name})", y_title)
    figure.update_xaxes(range=[0.0, span_s / unit.seconds], hoverformat=",.1f", zeroline=False)
    return figure, unit


def _stretches(run: OnlineRun) -> list[tuple[Arm, float, float]]:
    """Ways to run, each from when to when, in seconds since the first request."""
    first_s, end_s = float(run.origin.trace.arrival_s[0]), float(_starts_s(run)[-1])
    names = {arm.name.lower(): arm for arm in Arm}
    changes = [(h.at_s - first_s, names[h.kind]) for h in run.result.happenings if h.kind in names]
    starts = [(0.0, Arm.LRU), *changes]
    ends = [at_s for at_s, _ in changes] + [end_s]
    return [(arm, start_s, until_s) for (start_s, arm), until_s in zip(starts, ends, strict=True)]


def _arms_plot(run: OnlineRun) -> Plot:
    figure, unit = _figure(run, "")
    shown: set[Arm] = set()
    for arm, start_s, end_s in _stretches(run):
        figure.add_trace(
            go.Bar(
                base=[start_s / unit.seconds],
                x=[(end_s - start_s) / unit.seconds],
                y=["way to run"],
                orientation="h",
                width=0.5,
                name=plain(arm_name(run, arm)),
                legendgroup=arm.name,
                showlegend=arm not in shown,
                marker={"color": ARM_COLOURS[arm], "line": {"width": 0}},
                hovertemplate=f"{plain(arm_name(run, arm))}: {start_s / unit.seconds:,.1f} to "
                f"{end_s / unit.seconds:,.1f} {unit.name}<extra></extra>",
            )
        )
        shown.add(arm)
    first_s = float(run.origin.trace.arrival_s[0])
    figure.add_trace(
        go.Scatter(
            x=[(fit.fitted_at_s - first_s) / unit.seconds for fit in run.result.fits],
            y=["fits"] * len(run.result.fits),
            customdata=[[fit.n_rows, fit.fit_seconds] for fit in run.result.fits],
            mode="markers",
            marker={"symbol": "diamond", "size": 10, "color": "var(--clairvoyant)"},
            name="a model was fitted",
            hovertemplate="%{customdata[0]:,} runs of blocks, %{customdata[1]:.2f} s<extra></extra>",
        )
    )
    figure.update_yaxes(categoryorder="array", categoryarray=["fits", "way to run"], ticks="", zeroline=False)
    figure.update_layout(barmode="overlay", hovermode="closest")
    return Plot("arms", "Which way it ran", _ARMS, figure, wide=True, low=True)


def _regret_plot(run: OnlineRun) -> Plot:
    figure, unit = _figure(run, "seconds saved so far (s)")
    trace = run.origin.trace
    picked = np.unique(np.linspace(0, trace.n_requests - 1, min(_POINTS, trace.n_requests)).round().astype(np.intp))
    live_s = np.cumsum(run.result.cache.cost_s())[picked]
    at = (_starts_s(run)[picked] / unit.seconds).tolist()
    for name, other, colour, dash in _others(run):
        saved_s = np.cumsum(other.cost_s())[picked] - live_s
        figure.add_trace(
            go.Scatter(
                x=at,
                y=saved_s.tolist(),
                name=plain(name),
                mode="lines",
                line={"color": colour, "width": 2.5, "dash": dash},
                hovertemplate="%{y:,.1f} s<extra>beside " + plain(name) + "</extra>",
            )
        )
    return Plot("regret", "Seconds saved beside every other way", _REGRET, figure, wide=True)


def _others(run: OnlineRun) -> list[tuple[str, CacheResult, str, str]]:
    caches = (run.lru.stock, run.lru.staged, run.lru.joint)
    found = [(name, cache, *line) for name, cache, line in zip(lru_names(run), caches, _LRU_LINES, strict=False)]
    if run.shadows_saw_all and run.result.in_force is not None:
        for arm, cache in run.result.shadows.items():
            if arm is not Arm.LRU:
                found.append((f"{arm_name(run, arm)}, without a guard", cache, ARM_COLOURS[arm], "dash"))
    return found
