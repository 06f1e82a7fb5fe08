"""The page of a streaming search: what was chosen, what it was compared with, and every setting with its prediction."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.core.units import MIB, MS_PER_S, bytes_to_gib
from autotune.report.streaming import svg
from autotune.search.streaming.result import Comparison, StreamingResult, StreamingRow

_STYLE = f"""
body {{ font-family: {svg.FONT}; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1c2733; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #dde3e9; }}
th:first-child, td:first-child {{ text-align: left; }}
tr.chosen {{ background: #e3f3e8; }}
p {{ line-height: 1.5; }}
"""


def save_streaming_report(result: StreamingResult, path: Path) -> None:
    """Write the page so that a reader sees the old file or the new one, never a part of it.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_atomically(path, render_streaming_report(result))
    except OSError as problem:
        raise ConfigError(
            f"{path} must be writable", got=problem.strerror or problem, remedy="give another folder with --out"
        ) from problem


def render_streaming_report(result: StreamingResult) -> str:
    """The page as text."""
    chosen = sorted(result.rows, key=lambda row: row.token_s)
    body = [
        "<h1>Streaming the KV of running requests</h1>",
        *(f"<p>{html.escape(sentence)}</p>" for sentence in summary_sentences(result)),
        "<h2>Prediction against measurement</h2>",
        _scatter(result.rows),
        "<h2>Settings tried, fastest first</h2>",
        _table([setting_cells(row) for row in chosen], chosen.index(result.chosen)),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Streaming report</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def summary_sentences(result: StreamingResult) -> tuple[str, ...]:
    """What was found, in sentences, for the page and the terminal."""
    chosen, kv = result.chosen, result.model
    link = "simulated link" if result.link_is_simulated else "measured link"
    shape = f"{result.workload.prompt_tokens} + {result.workload.new_tokens} tokens"
    return (
        f"{kv.name} on {kv.device} ({kv.element_type}), {shape}, budget {result.space.budget_bytes / MIB:,.1f} MiB, "
        f"{link} of {bytes_to_gib(result.load_bytes_per_s):.3g} GiB/s.",
        f"Chosen: p = {result.resident_frac:g} ({chosen.setting.n_resident} of {len(kv.candidates)} layers resident), "
        f"d = {chosen.setting.prefetch_depth}, placement {chosen.setting.placement}, batch {chosen.setting.batch}: "
        f"{MS_PER_S * chosen.token_s:.2f} ms per token in {chosen.planned_bytes / MIB:,.1f} MiB.",
        *(_comparison(comparison) for comparison in result.comparisons),
        f"The recurrence's median error over {len(result.rows)} settings: {100 * result.median_error_frac:.1f} % from "
        f"times measured beforehand, {100 * result.median_explained_error_frac:.1f} % from the layers' compute in the "
        "same run.",
    )


HEADINGS = (
    "p (layers)",
    "d",
    "placement",
    "batch",
    "MiB",
    "ms per token",
    "step",
    "predicted",
    "error",
    "own",
    "waits",
)


def setting_cells(row: StreamingRow) -> tuple[str, ...]:
    """A row of the table of settings, under :data:`HEADINGS`; ``own``: the error given the run's own compute."""
    setting = row.setting
    return (
        str(setting.n_resident),
        str(setting.prefetch_depth),
        setting.placement.value,
        str(setting.batch),
        f"{row.planned_bytes / MIB:,.1f}",
        f"{MS_PER_S * row.token_s:.2f}",
        f"{MS_PER_S * row.measured.step_s:.2f}",
        f"{MS_PER_S * row.predicted.step_s:.2f}",
        f"{100 * row.error_frac:+.1f} %",
        f"{100 * row.explained_error_frac:+.1f} %",
        f"{MS_PER_S * row.measured.wait_s:.2f}",
    )


def _comparison(comparison: Comparison) -> str:
    if comparison.token_s is None or comparison.speed_up is None:
        return f"Against {comparison.name}: not compared. {comparison.note}."
    times = f"{MS_PER_S * comparison.token_s:.2f} against {MS_PER_S * comparison.chosen_token_s:.2f} ms per token"
    batch = f", batch {comparison.setting.batch}" if comparison.setting else ""
    return (
        f"Against {comparison.name} within the same budget{batch}: {comparison.speed_up:.2f} times as fast ({times})."
    )


def _table(rows: Sequence[tuple[str, ...]], chosen: int) -> str:
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in HEADINGS)
    lines = []
    for number, row in enumerate(rows):
        kind = ' class="chosen"' if number == chosen else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _scatter(rows: Sequence[StreamingRow]) -> str:
    size, margin = 420, 56
    top_ms = svg.ceiling(MS_PER_S * max(max(row.measured.step_s, row.predicted.step_s) for row in rows))

    def place(seconds: float) -> float:
        return (size - 2 * margin) * MS_PER_S * seconds / top_ms

    low, high = margin, size - margin
    parts = [
        svg.line(low, high, high, high, "axis"),
        svg.line(low, high, low, low, "axis"),
        svg.line(low, high, high, low, "grid"),
        svg.text(size / 2, size - 14, f"measured step, 0 to {top_ms:g} ms", "note", "middle"),
        svg.text(low, low - 12, f"predicted step, 0 to {top_ms:g} ms", "note"),
        *(svg.dot(low + place(r.measured.step_s), high - place(r.predicted.step_s), svg.LINES[0]) for r in rows),
    ]
    return svg.document(size, size, "Predicted against measured step", parts)
