"""How the search went: the best so far beside random search, and which knobs mattered."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from autotune.report.labels import short_setting
from autotune.report.plots.plot import Plot, make_room_for_texts, new_figure, plain
from autotune.search.result import TrialRow, TuneResult

_HISTORY = (
    "Dots are settings tried on the past, lines the best up to then; below 0 is better than LRU, tried first. "
    "Random search had the same budget: where both lines end close together, the search needed no cleverness."
)
_IMPORTANCE = (
    "How much of the difference between settings each knob explains. Turn a knob with a short bar and little changes."
)
_RANDOM = "random"
_ROLES = ("tuned", "clairvoyant", "bad", "other")


def trial_plots(result: TuneResult) -> tuple[Plot, ...]:
    """Search history and parameter importance, as far as there are any."""
    plots = []
    if result.trials:
        plots.append(_history_plot(result.trials))
    if result.importance:
        plots.append(_importance_plot(result))
    return tuple(plots)


def best_so_far(trials: Iterable[TrialRow]) -> tuple[list[int], list[float]]:
    """Numbers of the trials that keep all constraints, and the smallest value up to each."""
    numbers, best = [], []
    smallest = math.inf
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.feasible and math.isfinite(trial.value):
            smallest = min(smallest, trial.value)
            numbers.append(trial.number)
            best.append(smallest)
    return numbers, best


def _history_plot(trials: tuple[TrialRow, ...]) -> Plot:
    figure = new_figure("trial", "objective beside LRU's (%)")
    studies = list(dict.fromkeys(trial.study for trial in trials))
    roles = iter(_ROLES * len(studies))
    for study in studies:
        own = [trial for trial in trials if trial.study == study]
        _add_study(figure, study, own, "random" if study == _RANDOM else next(roles))
    figure.update_yaxes(range=_value_range(trials), tickformat=",~g")
    figure.update_xaxes(zeroline=False)
    figure.update_layout(hovermode="closest")
    return Plot("history", "Best setting so far", _HISTORY, figure)


def _add_study(figure: Any, study: str, trials: list[TrialRow], role: str) -> None:
    name, dash = ("random search", "dot") if study == _RANDOM else (plain(study), "solid")
    tried = [trial for trial in trials if math.isfinite(trial.value)]
    figure.add_trace(
        go.Scatter(
            x=[trial.number for trial in tried],
            y=[100.0 * trial.value for trial in tried],
            customdata=[_words(trial) for trial in tried],
            name=name,
            legendgroup=study,
            showlegend=False,
            mode="markers",
            marker={
                "size": 6,
                "color": f"var(--{role})",
                "opacity": 0.45,
                "symbol": ["circle" if trial.feasible else "x" for trial in tried],
            },
            hovertemplate="trial %{x}: %{y:.2f} %<br>%{customdata}<extra>" + name + "</extra>",
        )
    )
    numbers, best = best_so_far(trials)
    figure.add_trace(
        go.Scatter(
            x=numbers,
            y=[100.0 * value for value in best],
            name=f"best of {name}",
            legendgroup=study,
            mode="lines",
            line={"shape": "hv", "color": f"var(--{role})", "width": 2.5, "dash": dash},
            hovertemplate="best up to trial %{x}: %{y:.2f} %<extra>" + name + "</extra>",
        )
    )


def _words(trial: TrialRow) -> str:
    return plain(short_setting(trial.setting)) + ("" if trial.feasible else "<br>breaks a constraint")


def _value_range(trials: tuple[TrialRow, ...]) -> list[float] | None:
    """Limits in % that show the lines; settings far worse than LRU would press them flat and lie above."""
    values = [100.0 * trial.value for trial in trials if math.isfinite(trial.value)]
    if not values:
        return None
    lowest, highest = min(0.0, *values), max(0.0, *values)
    room = max(-lowest, 0.1)
    return [lowest - 0.1 * room, min(highest + 0.1 * room, 1.5 * room)]


def _importance_plot(result: TuneResult) -> Plot:
    figure = new_figure("share explained (%)", "")
    figure.add_trace(
        go.Bar(
            x=[100.0 * share for _, share in result.importance],
            y=[plain(knob) for knob, _ in result.importance],
            orientation="h",
            marker={"color": "var(--tuned)"},
            text=[f"{100.0 * share:.0f} %" for _, share in result.importance],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.1f} %<extra></extra>",
        )
    )
    figure.update_layout(hovermode="closest", showlegend=False)
    make_room_for_texts(figure, [100.0 * share for _, share in result.importance])
    return Plot("importance", "Which knobs mattered", _IMPORTANCE, figure)
