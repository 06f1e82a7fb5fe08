"""Speed of the online simulation with its fits, and of a fit on 100,000 rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import online_signals
from online_cells import Journal
from online_plan import MIDDLE_FRAC, has_folder
from online_runs import OnlineTask, cell
from tables import table

from autotune.core.eviction import PolicySpec
from autotune.core.types import Timing
from autotune.costs.reuse import NotEnough, ReuseSettings, fit_reuse
from autotune.online.settings import OnlineSettings

ROWS = 100_000
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of one round.

    Attributes:
        wall_s: On the clock.
        process_s: On all cores by this process alone, which others on the machine do not lengthen.
    """

    wall_s: float
    process_s: float


def timed(work: Callable[[], object], rounds: int = ROUNDS) -> list[Taken]:
    """So many rounds, after one that does not count."""
    work()
    found = []
    for _ in range(rounds):
        wall_s, process_s = time.perf_counter(), time.process_time()
        work()
        found.append(Taken(time.perf_counter() - wall_s, time.process_time() - process_s))
    return found


def report(trace: str | None = None, rounds: int = ROUNDS) -> str:
    """Both, on merged sessions where there are any."""
    name = trace or ("agentic" if has_folder() else "conversation")
    task = OnlineTask(cell(name, MIDDLE_FRAC, Timing.INSTANT, 0), 0, Journal(Path("none")))
    accesses = task.trace.n_accesses
    runs = {
        "LRU": timed(lambda: task.simulate(PolicySpec("lru")), rounds),
        "online, lazy, refits included": timed(task.online, rounds),
    }
    speeds = [
        [
            what,
            f"{accesses:,}",
            f"{accesses / median(one.process_s for one in taken) / 1e6:.2f}",
            f"{accesses / median(one.wall_s for one in taken) / 1e6:.2f}",
        ]
        for what, taken in runs.items()
    ]
    heads = ("run", "block accesses", "million accesses/s of process time", "of wall clock")
    title = f"{name}, C1 = {100 * MIDDLE_FRAC:g} %, instant timing; medians of {rounds} rounds."
    return "\n\n".join(["### Speed", title, table(heads, speeds), *_fits(task, rounds)])


def _fits(task: OnlineTask, rounds: int) -> list[str]:
    rows, end_s = online_signals.all_rows(task.trace, task.engine, task.costs)
    rows = rows.take(online_signals.last(rows, ROWS))
    lines = []
    for what, settings in (("of the loop", OnlineSettings().fit), ("of a single fit", ReuseSettings())):
        if isinstance(fit_reuse(rows, end_s, settings, 0), NotEnough):
            continue
        taken = timed(lambda settings=settings: fit_reuse(rows, end_s, settings, 0), rounds)  # type: ignore[misc]
        lines.append(
            [
                what,
                f"{len(rows):,}",
                f"{settings.max_rows:,} / {settings.max_tree_rows:,}",
                str(settings.trees),
                f"{median(one.process_s for one in taken):.2f}",
                f"{median(one.wall_s for one in taken):.2f}",
            ]
        )
    heads = ("settings", "rows", "most rows used: curves / trees", "trees", "process seconds", "wall seconds")
    return [f"One fit on the newest rows of the same trace ({ROWS:,}, or as many as there are):", table(heads, lines)]
