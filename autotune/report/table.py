"""What ``kv-autotune tune`` prints at its end."""

from __future__ import annotations

import textwrap

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from autotune.report.columns import Column, chosen_row, columns
from autotune.report.formats import duration, printable
from autotune.report.labels import BASELINE, BOUNDS, row_label
from autotune.report.learned import chosen_rule, learned_sentences
from autotune.report.sentences import as_sentence, break_even_sentence
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
        show_edge=False,
        pad_edge=False,
    )
    labels = [row_label(row.name) for row in result.rows]
    _add_columns(table, shown, max((len(word) for label in labels for word in label.split()), default=None))
    chosen = chosen_row(result)
    for label, row in zip(labels, result.rows, strict=True):
        style = "bold" if row is chosen else "dim" if row.name in BOUNDS else ""
        # Texts, not strings: square brackets in a name are not markup.
        table.add_row(Text(label), *(Text(column.cell(row)) for column in shown), style=style)
    return table


def summary_lines(result: TuneResult) -> tuple[str, ...]:
    """The result in plain sentences, the verdict first."""
    lines = [as_sentence(result.verdict)]
    if result.reason not in result.verdict:
        lines.append(as_sentence(result.reason))
    if result.chosen != BASELINE:
        lines.append(f"Chosen: {chosen_rule(result)}; bounds at {100 * result.confidence:g} % confidence.")
    lines += [as_sentence(line) for line in learned_sentences(result)]
    return (*lines, break_even_sentence(result), as_sentence(result.ttft_note))


def _held_out(result: TuneResult) -> str:
    end_s = max(result.trace.span_s, result.measured_from_s)
    return f"from {duration(result.measured_from_s)} to {duration(end_s)} of {printable(result.trace.name)}"


def _add_columns(table: Table, shown: list[Column], longest_word: int | None) -> None:
    """Headings that end on the same line; in a narrow terminal names break between words, figures never do."""
    headings = [["policy"], *(_heading(column) for column in shown)]
    height = max(map(len, headings))
    name, *figures = (Text("\n".join([""] * (height - len(lines)) + lines)) for lines in headings)
    table.add_column(name, min_width=longest_word)
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)


def _heading(column: Column) -> list[str]:
    """Lines for a heading on a column that is little wider than its figures."""
    return [*textwrap.wrap(column.heading, _HEADING_CHARS, break_long_words=False), column.unit]
