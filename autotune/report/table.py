"""What ``kv-autotune tune`` prints at its end."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from autotune.report.columns import Column, chosen_row, columns
from autotune.report.formats import duration, with_percent
from autotune.report.labels import BASELINE, BOUNDS, row_label, short_setting
from autotune.search.result import TuneResult

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
        header_style="",
    )
    table.add_column("policy\n", justify="left", no_wrap=True)
    for column in shown:
        table.add_column(_heading(column), justify="right", no_wrap=True)
    chosen = chosen_row(result)
    for row in result.rows:
        style = "bold" if row is chosen else "dim" if row.name in BOUNDS else ""
        # Texts, not strings: square brackets in a name are not markup.
        table.add_row(Text(row_label(row.name)), *(Text(column.cell(row)) for column in shown), style=style)
    return table


def summary_lines(result: TuneResult) -> tuple[str, ...]:
    """The result in plain sentences, the verdict first."""
    return (
        result.verdict,
        result.reason,
        f"Chosen: {short_setting(result.setting)}. {gain_sentence(result)}",
        break_even_sentence(result),
        result.ttft_note,
    )


def gain_sentence(result: TuneResult) -> str:
    """The expected gain with its bounds, and the share of the gap."""
    if result.chosen == BASELINE:
        return "LRU's cost is the baseline, so there is nothing to gain or lose."
    gain = result.gain_frac
    bounds = f"{with_percent(gain.low)} to {with_percent(gain.high)} at {100 * result.confidence:g} % confidence"
    sentence = f"It saves {with_percent(gain.value)} of LRU's cost ({bounds})"
    if result.gap_closed_frac is None:
        return sentence + "."
    return f"{sentence} and closes {with_percent(result.gap_closed_frac)} of the gap to the clairvoyant."


def break_even_sentence(result: TuneResult) -> str:
    """When a load pays, by the cost model alone."""
    if not result.sizes.host_blocks:
        return "There is no host tier, so nothing is loaded."
    if result.break_even_tokens is None:
        return "At these costs loading from the host never pays: recomputing is always quicker."
    return f"Loading from the host pays for runs of {result.break_even_tokens:,} tokens or more."


def _held_out(result: TuneResult) -> str:
    end_s = max(result.trace.span_s, result.measured_from_s)
    return f"from {duration(result.measured_from_s)} to {duration(end_s)} of {result.trace.name}"


def _heading(column: Column) -> str:
    """Two lines, so that columns stay narrow: what it is, and the unit."""
    words, unit = column.heading, f" ({column.unit})" if column.unit else ""
    first, _, rest = words.partition(" ")
    return f"{first}\n{rest}{unit}"
