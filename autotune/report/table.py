"""What ``kv-autotune tune`` prints at its end."""

from __future__ import annotations

import textwrap

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from autotune.report.columns import Column, chosen_row, columns
from autotune.report.formats import duration
from autotune.report.labels import BOUNDS, row_label, short_setting
from autotune.report.sentences import as_sentence, break_even_sentence, gain_sentence
from autotune.search.result import TuneResult

_HEADING_CHARS = 8
_CAPTION = (
    "Gap closed: 0 % is LRU, 100 % the clairvoyant, which knows the future: a bound to measure against, not a choice."
)


def policy_table(result: TuneResult) -> Table:
    """Policies on the held-out part, one per row; the chosen one in bold."""
    shown = [column for column in columns(result) if not column.detail]
    table = Table(
        title=Text(f"Held-out part: {_held_out(result)}"),
        title_justify="left",
        caption=Text(_CAPTION),
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    headings = [["policy"], *(_heading(column) for column in shown)]
    height = max(len(lines) for lines in headings)
    for lines in headings:
        is_name = lines == headings[0]
        text = Text("\n".join([""] * (height - len(lines)) + lines))
        # Where the terminal is too narrow, names break into lines; figures never do.
        table.add_column(text, justify="left" if is_name else "right", no_wrap=not is_name)
    chosen = chosen_row(result)
    for row in result.rows:
        style = "bold" if row is chosen else "dim" if row.name in BOUNDS else ""
        # Texts, not strings: square brackets in a name are not markup.
        table.add_row(Text(row_label(row.name)), *(Text(column.cell(row)) for column in shown), style=style)
    return table


def summary_lines(result: TuneResult) -> tuple[str, ...]:
    """The result in plain sentences, the verdict first."""
    return (
        as_sentence(result.verdict),
        as_sentence(result.reason),
        f"Chosen: {short_setting(result.setting)}. {gain_sentence(result)}",
        break_even_sentence(result),
        as_sentence(result.ttft_note),
    )


def _held_out(result: TuneResult) -> str:
    end_s = max(result.trace.span_s, result.measured_from_s)
    return f"from {duration(result.measured_from_s)} to {duration(end_s)} of {result.trace.name}"


def _heading(column: Column) -> list[str]:
    """Lines for a heading on a column that is little wider than its figures."""
    return [*textwrap.wrap(column.heading, _HEADING_CHARS, break_long_words=False), column.unit]
