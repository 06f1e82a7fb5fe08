"""The report: one HTML file that needs nothing else, neither files beside it nor a network."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from autotune.export import render
from autotune.report.columns import chosen_row, columns
from autotune.report.facts import cost_facts, key_figures, provenance_facts, scope_facts, trace_facts
from autotune.report.html import environment, packaged_text, save_page, security_policy
from autotune.report.labels import BASELINE, BOUNDS, row_label
from autotune.report.learned import learned_facts, rule_facts
from autotune.report.plots import plot_groups
from autotune.search.result import TuneResult

_TEMPLATE = "report.html.j2"


def render_report(result: TuneResult) -> str:
    """The whole report as HTML; the same result always gives the same text.

    Everything in it is escaped: names of traces come from outside. A content security policy allows the two scripts
    of the page, by their hashes, and no request to anywhere.
    """
    plotly, drawing = get_plotlyjs(), packaged_text("plots.js")
    return (
        environment()
        .get_template(_TEMPLATE)
        .render(
            result=result,
            stays_lru=result.chosen == BASELINE,
            key_figures=key_figures(result),
            scope=scope_facts(result),
            columns=columns(result),
            chosen=chosen_row(result),
            bounds=BOUNDS,
            row_label=row_label,
            groups=plot_groups(result),
            setting=rule_facts(result),
            learned=learned_facts(result),
            policy_yaml=render(result.document),
            trace=trace_facts(result),
            costs=cost_facts(result),
            provenance=provenance_facts(result),
            style=Markup(packaged_text("report.css")),
            scripts=[Markup(plotly), Markup(drawing)],
            security=security_policy(plotly, drawing),
        )
    )


def save_report(result: TuneResult, path: Path) -> None:
    """Write the report so that a reader sees the old file or the new one, never a part of it.

    Raises:
        ConfigError: the file cannot be written; the old one, if any, is untouched.
    """
    save_page(render_report(result), path)
