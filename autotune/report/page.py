"""The report: one HTML file that needs nothing else, neither files beside it nor a network."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.export import render
from autotune.report.columns import chosen_row, columns
from autotune.report.facts import cost_facts, key_figures, provenance_facts, scope_facts, trace_facts
from autotune.report.formats import printable
from autotune.report.labels import BASELINE, BOUNDS, row_label, setting_facts
from autotune.report.plots import plot_groups
from autotune.report.sentences import as_sentence
from autotune.search.result import TuneResult

_TEMPLATES = "templates"
_TEMPLATE = "report.html.j2"


def render_report(result: TuneResult) -> str:
    """The whole report as HTML; the same result always gives the same text.

    Everything in it is escaped: names of traces come from outside. A content security policy allows the two scripts
    of the page, by their hashes, and no request to anywhere.
    """
    plotly, drawing = get_plotlyjs(), _packaged_text("plots.js")
    return (
        _environment()
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
            setting=setting_facts(result.setting),
            policy_yaml=render(result.document),
            trace=trace_facts(result),
            costs=cost_facts(result),
            provenance=provenance_facts(result),
            style=Markup(_packaged_text("report.css")),
            scripts=[Markup(plotly), Markup(drawing)],
            security=_security_policy(plotly, drawing),
        )
    )


def save_report(result: TuneResult, path: Path) -> None:
    """Write the report so that a reader sees the old file or the new one, never a part of it.

    Raises:
        ConfigError: the file cannot be written; the old one, if any, is untouched.
    """
    try:
        write_atomically(path, render_report(result))
    except OSError as problem:
        raise ConfigError(
            f"{path} must be writable", got=problem.strerror or problem, remedy="give another folder with --out"
        ) from problem


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("autotune.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = as_sentence
    environment.filters["printable"] = printable
    environment.filters["unbroken"] = _unbroken
    return environment


def _unbroken(text: str) -> str:
    """The text with every number on one line with its unit."""
    return re.sub(r"(?<=[0-9]) (?=[^0-9\s])", "\N{NO-BREAK SPACE}", text)


def _packaged_text(name: str) -> str:
    return (files("autotune.report") / _TEMPLATES / name).read_text("utf-8")


def _security_policy(*scripts: str) -> str:
    """What the page may do: run these scripts and style itself."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
