"""What a run of the online loop, or of LRU beside it, came to; and the file that it is kept in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from peers_cells import WARM_UP_FRAC, Cell, code_hash

from autotune.sim.result import CacheResult


@dataclass(frozen=True, slots=True)
class Truth:
    """How true the probabilities of all fits were on the rows between each fit and the next.

    Attributes:
        horizon: ``near`` or ``far``.
        rows: Rows whose fate within the horizon is known by the end of the trace.
        ece: Expected calibration error.
        chance_ece: What of it a model without fault would show.
    """

    horizon: str
    rows: int
    ece: float
    chance_ece: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run. *Counted* is from 20 % of the time on, *whole* is everything.

    Attributes:
        cell: The cell.
        name: What ran.
        cost_s: Recompute, loads and exposed stores, counted.
        whole_cost_s: The same of the whole run.
        staged_cost_s: Counted cost of the shadow under LRU with the learned rule's store mode; 0 = there is none.
        learned_frac: Share of stock LRU's whole cost that the shadow under the learned rule saved.
        stored_bytes: Bytes written to the host, counted.
        whole_stored_bytes: The same of the whole run.
        whole_span_s: From the first arrival to the last one's start, waits included.
        oversized_requests: Requests larger than the device (service timing).
        waited_s: Seconds that requests waited for room (service timing).
        arm_frac: Share of requests under LRU, under LRU in the store mode, and under what was learned.
        fits: Models fitted.
        why: What the loop last waited for, in words; empty = nothing.
        truths: Calibration on unseen time, where it was asked for.
        took_s: Wall clock.
        code: Hash over the code that it ran on.
    """

    cell: Cell
    name: str
    cost_s: float
    whole_cost_s: float
    stored_bytes: int
    whole_stored_bytes: int
    whole_span_s: float
    oversized_requests: int
    waited_s: float
    staged_cost_s: float = 0.0
    learned_frac: float = 0.0
    arm_frac: tuple[float, float, float] = (1.0, 0.0, 0.0)
    fits: int = 0
    why: str = ""
    truths: tuple[Truth, ...] = ()
    took_s: float = 0.0
    code: str = ""

    @property
    def key(self) -> tuple[Cell, str]:
        """What tells runs apart."""
        return self.cell, self.name

    @property
    def stayed(self) -> bool:
        """Whether the loop never left LRU."""
        return self.arm_frac[0] == 1.0

    @classmethod
    def of(cls, cell: Cell, name: str, cache: CacheResult) -> Self:
        """The figures of a simulation, without those of a loop."""
        start, trace = first_counted(cache), cache.trace
        counted, whole = cache.totals(start), cache.totals()
        ends_s = trace.arrival_s + cache.wait_s
        return cls(
            cell=cell,
            name=name,
            cost_s=counted.cost_s,
            whole_cost_s=whole.cost_s,
            stored_bytes=counted.stored_bytes,
            whole_stored_bytes=whole.stored_bytes,
            whole_span_s=float(ends_s.max() - trace.arrival_s[0]),
            oversized_requests=counted.oversized_requests,
            waited_s=counted.waited_s,
            code=code_hash(),
        )


def first_counted(cache: CacheResult) -> int:
    """The first request after a fifth of the time."""
    trace = cache.trace
    return trace.first_request_at(trace.arrival_s[0] + WARM_UP_FRAC * trace.span_s)


class Journal:
    """Runs in a file of JSON lines, one appended as soon as it is there, so that work goes on where it stopped.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_key = {run.key: run for run in _read(path)}

    def __contains__(self, key: tuple[Cell, str]) -> bool:
        return key in self._by_key

    def __getitem__(self, key: tuple[Cell, str]) -> Run:
        return self._by_key[key]

    @property
    def runs(self) -> list[Run]:
        """All of them."""
        return list(self._by_key.values())

    def add(self, run: Run) -> None:
        """Append one run."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            start = b"" if file.read() in (b"", b"\n") else b"\n"  # an interruption may have cut the last line off
            file.write(start + json.dumps(asdict(run)).encode() + b"\n")
        self._by_key[run.key] = run

    def named(self, name: str, cells: Iterable[Cell] | None = None) -> list[Run]:
        """The runs of that name, of all cells or of some."""
        wanted = None if cells is None else set(cells)
        return [run for run in self.runs if run.name == name and (wanted is None or run.cell in wanted)]


def _read(path: Path) -> list[Run]:
    """Runs of a file; of several for one key the last counts. Lines that were cut off are left out."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text("utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            print(f"{path}: a line that an interruption cut off is left out", file=sys.stderr)
            continue
        row["cell"], row["arm_frac"] = Cell(**row["cell"]), tuple(row["arm_frac"])
        row["truths"] = tuple(Truth(**truth) for truth in row["truths"])
        found.append(Run(**row))
    return found
