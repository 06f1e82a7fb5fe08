"""The outcome of the demo in words and figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from prediction import HitFracs
from replay import Replay
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from autotune.core.units import MIB, MS_PER_S


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's replay.

    Attributes:
        name: How the policy is called.
        replay: What the engine answered and counted.
        measured: Hits that it counted.
        predicted: Hits that the simulator says.
    """

    name: str
    replay: Replay
    measured: HitFracs
    predicted: HitFracs

    @property
    def largest_error_frac(self) -> float:
        """By how much the predicted hit rate is off."""
        return abs(self.measured.hit_frac - self.predicted.hit_frac)


def show(console: Console, runs: list[Run], equal: bool) -> None:
    """Print the tables and what follows from them."""
    for table in (_counts(runs), _rates(runs)):
        console.print(table)
        console.print()
    for line in sentences(runs, equal):
        console.print(line, markup=False, highlight=False)


def _counts(runs: list[Run]) -> Table:
    headings = ("device\ntokens", "host\ntokens", "recomputed\ntokens", "stored\nMiB", "loaded\nMiB")
    table = _table("What the engine counted", *headings, "TTFT mean\nms", "p95\nms")
    for run in runs:
        counted = run.replay.counters
        ttft_s = np.array([answer.ttft_s for answer in run.replay.answers])
        tokens = (counted.device_tokens, counted.host_tokens, counted.computed_tokens)
        copied = (counted.stored_bytes / MIB, counted.loaded_bytes / MIB)
        waits = (ttft_s.mean() * MS_PER_S, np.quantile(ttft_s, 0.95) * MS_PER_S)
        table.add_row(run.name, *(f"{value:,.0f}" for value in (*tokens, *copied, *waits)))
    return table


def _rates(runs: list[Run]) -> Table:
    headings = ("device", "host", "both", "both, in the part\nnot tuned on")
    table = _table("Prompt tokens found: measured | predicted, in %", *headings)
    for run in runs:
        shares = [
            f"{100 * getattr(run.measured, name):.1f} | {100 * getattr(run.predicted, name):.1f}"
            for name in ("device_frac", "host_frac", "hit_frac", "later_frac")
        ]
        table.add_row(run.name, *shares)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
    table.add_column("policy")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def sentences(runs: list[Run], equal: bool) -> Iterator[str]:
    """What the tables say: gains of the last run over the others, the worst prediction, and the tokens."""
    ours = runs[-1]
    for other in runs[:-1]:
        gained = ours.measured.host_frac - other.measured.host_frac
        promised = ours.predicted.host_frac - other.predicted.host_frac
        yield (
            f"Host hits above {other.name}: {100 * gained:+.1f} points of all prompt tokens measured, "
            f"{100 * promised:+.1f} predicted."
        )
    worst = max(runs, key=lambda run: run.largest_error_frac)
    yield f"Largest error of a predicted hit rate: {100 * worst.largest_error_frac:.1f} points ({worst.name})."
    evictions = ours.replay.counters.evictions
    yield f"Blocks that left the host under {ours.name}: {evictions:,.0f} (vLLM does not count its own)."
    if fallbacks := int(ours.replay.counters.fallbacks):
        yield f"The plug-in fell back to LRU {fallbacks} times; see the server's log."
    n_tokens = sum(len(answer.token_ids) for answer in ours.replay.answers)
    told = f"{n_tokens:,} tokens of {len(ours.replay.answers):,} requests"
    yield f"All {told} are equal in every run." if equal else f"NOT all {told} are equal in every run."
