"""Columns of the table of policies, the same in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.report.formats import milliseconds, number, percent, seconds_decimals
from autotune.report.labels import BASELINE, LEARNED, TUNED
from autotune.search.result import PolicyRow, TuneResult


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a policy.

    Attributes:
        heading: What it is, without the unit.
        unit: Unit of the figures; empty for a pure number.
        meaning: One sentence for somebody who sees it for the first time.
        cell: The figure of a row as text.
        detail: Whether it is left out where there is little room.
    """

    heading: str
    unit: str
    meaning: str
    cell: Callable[[PolicyRow], str]
    detail: bool = False


def columns(result: TuneResult) -> tuple[Column, ...]:
    """The columns that say something about this result: tiers that exist, TTFT where it is reported."""
    return (*_hit_columns(result), *_second_columns(result), *_byte_columns(result), *_ttft_columns(result))


def chosen_row(result: TuneResult) -> PolicyRow | None:
    """The row of the policy that was chosen; ``None`` where the result has none."""
    wanted = result.chosen if result.chosen in (BASELINE, LEARNED) else TUNED
    return next((row for row in result.rows if row.name == wanted), None)


def baseline_row(result: TuneResult) -> PolicyRow | None:
    """LRU's row; ``None`` where the result has none."""
    return next((row for row in result.rows if row.name == BASELINE), None)


def _hit_columns(result: TuneResult) -> list[Column]:
    meaning = "Share of block accesses that were {}."
    found = [
        Column("device hits", "%", meaning.format("found on the device"), lambda row: percent(row.device_hit_frac))
    ]
    if result.sizes.host_blocks:
        loaded = meaning.format("loaded from host memory")
        found.append(Column("host hits", "%", loaded, lambda row: percent(row.host_hit_frac)))
    if result.sizes.disk_blocks:
        loaded = meaning.format("loaded from disk")
        found.append(Column("disk hits", "%", loaded, lambda row: percent(row.disk_hit_frac)))
    tokens = "Share of prompt tokens that needed no prefill."
    return [*found, Column("token hits", "%", tokens, lambda row: percent(row.token_hit_frac), detail=True)]


def _second_columns(result: TuneResult) -> list[Column]:
    decimals = seconds_decimals(max((abs(row.net_seconds_saved) for row in result.rows), default=0.0))
    return [
        Column(
            "net seconds saved",
            "s",
            "Seconds of prefill that hits avoided, less the seconds of loads and of stores that delayed requests.",
            lambda row: number(row.net_seconds_saved, decimals),
        ),
        Column(
            "cost",
            "s",
            "Seconds on the critical path: prefill of what was not found, loads, and stores that delayed requests.",
            lambda row: number(row.cost_s, decimals),
            detail=True,
        ),
        Column(
            "cost gap closed",
            "%",
            "Share of the way from LRU's cost (0 %) to the clairvoyant's (100 %); negative is worse than LRU.",
            lambda row: percent(row.gap_closed_frac),
        ),
        Column(
            "hit gap closed",
            "%",
            "The same for block hits.",
            lambda row: percent(row.hit_gap_closed_frac),
        ),
    ]


def _byte_columns(result: TuneResult) -> list[Column]:
    if not result.sizes.host_blocks:
        return []
    meaning = "Bytes stored to the host for each byte ever loaded back; what is never loaded was stored in vain."
    return [Column("stored ÷ loaded", "", meaning, lambda row: number(row.stored_per_loaded, 2))]


def _ttft_columns(result: TuneResult) -> list[Column]:
    found = []
    if any(row.ttft_p50_s is not None for row in result.rows):
        p50 = "Median time to first token."
        found.append(Column("TTFT p50", "ms", p50, lambda row: milliseconds(row.ttft_p50_s), detail=True))
    if any(row.ttft_p95_s is not None for row in result.rows):
        p95 = "95 of 100 requests had their first token within this time."
        found.append(Column("TTFT p95", "ms", p95, lambda row: milliseconds(row.ttft_p95_s)))
    if any(row.ttft_p99_s is not None for row in result.rows):
        p99 = "99 of 100 requests had their first token within this time."
        found.append(Column("TTFT p99", "ms", p99, lambda row: milliseconds(row.ttft_p99_s), detail=True))
    if any(row.goodput_frac is not None for row in result.rows):
        goodput = "Share of requests within the target for TTFT."
        found.append(Column("goodput", "%", goodput, lambda row: percent(row.goodput_frac), detail=True))
    return found
