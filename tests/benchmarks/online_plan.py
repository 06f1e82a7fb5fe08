"""Which cell runs what, and in which order: what says most about every table first, further seeds after it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import inputs
import peers_traces
from online_cells import Journal
from online_runs import (
    BUDGETS,
    CALIBRATION,
    EXCLUSIVE,
    HINTED,
    LAZY,
    LRU_EXCLUSIVE,
    LRU_LAZY,
    budget_name,
    cell,
    without_name,
)
from online_signals import GROUPS
from peers_cells import Cell
from peers_policies import BOUND, LRU

from autotune.core.types import Timing

AIMED = ("conversation", "synthetic", "agentic")
AIM_FRACS = (0.0025, 0.005, 0.01, 0.02)
FRACS = (*AIM_FRACS, 0.05, 0.1, 0.2)
MIDDLE_FRAC = 0.01
SEEDS = 5
HALF = 0.5
PARTS = ("aims", "safety", "budget", "signals")


@dataclass(frozen=True, slots=True)
class Job:
    """One run that a table needs."""

    cell: Cell
    name: str


def at_hand() -> list[str]:
    """Traces of the tables: samples, the merged sessions, and the others; no further files of the folder."""
    names = [name for name in peers_traces.seeded_traces() if not name.startswith("mooncake ")]
    return sorted(names, key=lambda name: name == "agentic")  # the longest comes last


def jobs(part: str, names: Sequence[str], seed: int, fracs: Sequence[float] = FRACS) -> list[Job]:
    """The runs of one table and seed."""
    aimed = [name for name in names if name in AIMED]
    aims = [frac for frac in fracs if frac in AIM_FRACS]
    if part == "aims":
        runs = (LRU, BOUND, LRU_LAZY, LAZY, LRU_EXCLUSIVE, EXCLUSIVE)
        return _each(aimed, aims, Timing, seed, runs)
    if part == "safety":
        return _each(names, fracs, Timing, seed, (LRU, LRU_LAZY, LAZY))
    if part == "budget":
        curve = [budget_name(share) for share in BUDGETS]
        middle = [frac for frac in aims if frac == MIDDLE_FRAC]
        found = _each(aimed, aims, Timing, seed, (LRU, BOUND, budget_name(HALF)))
        return found + _each(aimed, middle, [Timing.INSTANT], seed, (*curve, LAZY))
    middle = [frac for frac in fracs if frac == MIDDLE_FRAC]
    hidden = [without_name(group) for group in GROUPS]
    found = _each(names, middle, [Timing.INSTANT], seed, (CALIBRATION,))
    found += _each(aimed, middle, [Timing.INSTANT], seed, (LRU, BOUND, LAZY, *hidden))
    hinted = [name for name in names if name == "conversation"]
    return found + _each(hinted, middle, Timing, seed, (LRU, BOUND, LAZY, HINTED))


def _each(
    names: Iterable[str], fracs: Iterable[float], timings: Iterable[Timing], seed: int, runs: Iterable[str]
) -> list[Job]:
    return [Job(cell(*where, seed), name) for where in itertools.product(names, fracs, timings) for name in runs]


def pending(parts: Sequence[str], names: Sequence[str], seeds: int, journal: Journal) -> Iterator[Job]:
    """What is not in the journal yet, seed by seed, and within a seed table by table."""
    listed = (job for seed in range(seeds) for part in parts for job in jobs(part, names, seed))
    for job in dict.fromkeys(listed):
        if (job.cell, job.name) not in journal:
            yield job


def has_folder() -> bool:
    """Whether a folder of further traces was given."""
    return bool(os.environ.get(inputs.FOLDER_VARIABLE))
