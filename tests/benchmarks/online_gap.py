"""Gaps closed, and how tables write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

from online_cells import Journal, Run
from peers_cells import Cell
from peers_policies import BOUND, LRU

_LEAST_GAP_FRAC = 0.002  # of LRU's cost; below it there is nothing to close


def gap_s(journal: Journal, cell: Cell) -> float | None:
    """Counted seconds from LRU to the clairvoyant; none where that is next to nothing."""
    if (cell, LRU) not in journal or (cell, BOUND) not in journal:
        return None
    lru, gap = journal[cell, LRU].cost_s, journal[cell, LRU].cost_s - journal[cell, BOUND].cost_s
    return gap if gap > _LEAST_GAP_FRAC * lru else None


def points(journal: Journal, cell: Cell, from_s: float, to_s: float) -> float:
    """Points of the gap between two costs; positive where the second is less. NaN without a gap."""
    gap = gap_s(journal, cell)
    return 100.0 * (from_s - to_s) / gap if gap else float("nan")


def gaps_closed(journal: Journal, runs: Iterable[Run]) -> list[float]:
    """Gap closed by each run."""
    return [points(journal, run.cell, journal[run.cell, LRU].cost_s, run.cost_s) for run in runs]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation over seeds; one seed has none."""
    middle = f"{mean(values):,.{digits}f}"
    return f"{middle} ± {stdev(values):.{digits}f}" if len(values) > 1 else middle


def share(frac: float) -> str:
    """A capacity in words."""
    return f"{100 * frac:g} %"
