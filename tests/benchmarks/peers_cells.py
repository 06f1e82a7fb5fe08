"""Cells of the comparison, what a policy came to in one, and the file that both are kept in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from journal import Records

import autotune
import autotune_policies
from autotune.sim.result import CacheResult

N_WINDOWS = 20
WARM_UP_FRAC = 0.2
_PARTS = ("core", "costs", "online", "search", "sim", "traces")


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation but for the policy.

    Attributes:
        trace: Name of the trace.
        tiers: ``two`` (device C1, host 4 x C1) or ``one`` (device C1 alone).
        device_frac: C1 as a share of the footprint.
        timing: ``instant`` or ``service``.
        seed: Of the trace and of everything random in a policy.
    """

    trace: str
    tiers: str
    device_frac: float
    timing: str
    seed: int

    def __str__(self) -> str:
        share = f"{100 * self.device_frac:g} %"
        return f"{self.trace}, {self.tiers} tier{'s' if self.tiers == 'two' else ''}, {share}, {self.timing}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a policy came to in a cell, counted from 20 % of the time on.

    Attributes:
        cell: The cell.
        policy: Its name in the tables.
        found: Settings that it found on the past, in words.
        requests: Requests that were counted.
        net_seconds: Recompute avoided less loads and exposed stores.
        cost_s: Recompute, loads and exposed stores.
        hit_tokens: Prompt tokens that needed no prefill.
        hit_blocks: Blocks found on any tier, in the unbroken run from the start of a prompt.
        stored_bytes: Bytes written to the host.
        loaded_bytes: Bytes read from it.
        oversized_requests: Requests larger than the device (service timing).
        waited_s: Seconds that requests waited for room (service timing).
        window_cost_s: Cost in each of 20 windows of equal length.
        took_s: Wall clock, searching included.
        code: Hash over the code that it ran on.
    """

    cell: Cell
    policy: str
    found: str
    requests: int
    net_seconds: float
    cost_s: float
    hit_tokens: int
    hit_blocks: int
    stored_bytes: int
    loaded_bytes: int
    oversized_requests: int
    waited_s: float
    window_cost_s: tuple[float, ...]
    took_s: float
    code: str

    @property
    def key(self) -> tuple[Cell, str]:
        """What tells results apart."""
        return self.cell, self.policy


def first_counted(cache: CacheResult) -> int:
    """The first request after a fifth of the time."""
    trace = cache.trace
    return trace.first_request_at(trace.arrival_s[0] + WARM_UP_FRAC * trace.span_s)


def figures_of(cell: Cell, policy: str, found: str, cache: CacheResult, took_s: float) -> Figures:
    """The figures of a simulation."""
    start = first_counted(cache)
    totals = cache.totals(start)
    return Figures(
        cell=cell,
        policy=policy,
        found=found,
        requests=totals.requests,
        net_seconds=totals.net_seconds_saved,
        cost_s=totals.cost_s,
        hit_tokens=totals.hit_tokens,
        hit_blocks=totals.accesses - totals.computed_blocks,
        stored_bytes=totals.stored_bytes,
        loaded_bytes=totals.loaded_bytes,
        oversized_requests=totals.oversized_requests,
        waited_s=totals.waited_s,
        window_cost_s=_window_costs(cache, start),
        took_s=took_s,
        code=code_hash(),
    )


def _window_costs(cache: CacheResult, start: int) -> tuple[float, ...]:
    arrival_s = cache.trace.arrival_s[start:]
    edges = np.linspace(arrival_s[0], arrival_s[-1], N_WINDOWS + 1)
    window = np.clip(np.searchsorted(edges, arrival_s, side="right") - 1, 0, N_WINDOWS - 1)
    return tuple(np.bincount(window, cache.cost_s()[start:], N_WINDOWS).tolist())


class Results(Records[Figures]):
    """Results in a file of JSON lines.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _figures)

    @property
    def cells(self) -> set[Cell]:
        """Cells of which there is a result."""
        return {one.cell for one in self.records}

    def of(self, cells: Iterable[Cell], policies: Iterable[str]) -> list[Figures]:
        """The results there are for these cells and policies, cell by cell."""
        names = list(policies)
        return [self[cell, name] for cell in cells for name in names if (cell, name) in self]


def _figures(row: dict[str, Any]) -> Figures:
    return Figures(**row | {"cell": Cell(**row["cell"]), "window_cost_s": tuple(row["window_cost_s"])})


@cache
def code_hash() -> str:
    """Short hash over what a simulation depends on."""
    root, policies = Path(autotune.__file__).parent, Path(autotune_policies.__file__).parent
    sources = [file for part in _PARTS for file in sorted((root / part).rglob("*.py"))]
    sources += [file for file in sorted(policies.rglob("*.py")) if "engines" not in file.parts]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
