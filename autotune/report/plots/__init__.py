"""The plots of the report, grouped under the question that they answer."""

from __future__ import annotations

from autotune.report.plots.capacity import capacity_plots
from autotune.report.plots.decisions import decision_plots
from autotune.report.plots.plot import Plot, PlotGroup
from autotune.report.plots.reuse import reuse_plots
from autotune.report.plots.trials import trial_plots
from autotune.search.result import TuneResult

__all__ = ["Plot", "PlotGroup", "plot_groups"]


def plot_groups(result: TuneResult) -> tuple[PlotGroup, ...]:
    """Every group in the order of the page; a group without data says why it is empty."""
    return (
        PlotGroup(
            "capacity",
            "What memory is worth",
            "No other capacities were simulated in this run.",
            capacity_plots(result),
        ),
        PlotGroup("reuse", "How blocks are reused", "No block of this trace was asked for twice.", reuse_plots(result)),
        PlotGroup(
            "decisions",
            "Decisions over time",
            "This run did not record decisions over time.",
            decision_plots(result),
        ),
        PlotGroup("search", "How the setting was found", "No setting was tried in this run.", trial_plots(result)),
    )
