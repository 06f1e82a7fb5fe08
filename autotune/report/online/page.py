"""The page of an online run: one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from autotune.core.policy import PolicyDocument
from autotune.core.types import Arm
from autotune.report.html import environment, packaged_text, save_page, security_policy
from autotune.report.online.facts import (
    COLUMNS,
    happening_rows,
    headline,
    key_figures,
    rows,
    run_facts,
    scope_facts,
)
from autotune.report.online.model import model_plots
from autotune.report.online.timeline import timeline_plots
from autotune.search.online_run import OnlineRun


def render_online_report(run: OnlineRun, document: PolicyDocument, name: str) -> str:
    """The page as HTML.

    Args:
        run: The run.
        document: The policy that it came to.
        name: The trace, as ``FORMAT:PATH``.
    """
    plotly, drawing = get_plotlyjs(), packaged_text("plots.js")
    return (
        environment()
        .get_template("online.html.j2")
        .render(
            name=name,
            headline=headline(run),
            learned=run.result.arm is not Arm.LRU,
            scope=scope_facts(run, name),
            key_figures=key_figures(run),
            columns=COLUMNS,
            rows=rows(run),
            timeline=timeline_plots(run),
            model=model_plots(run),
            happenings=happening_rows(run),
            facts=run_facts(run, document),
            style=Markup(packaged_text("report.css")),
            scripts=[Markup(plotly), Markup(drawing)],
            security=security_policy(plotly, drawing),
        )
    )


def save_online_report(run: OnlineRun, document: PolicyDocument, name: str, path: Path) -> None:
    """Write the page so that a reader sees the old file or the new one, never a part of it.

    Raises:
        ConfigError: the file cannot be written; the old one, if any, is untouched.
    """
    save_page(render_online_report(run, document, name), path)
