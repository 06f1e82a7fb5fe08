"""What a run of the online loop, or of LRU beside it, came to; and the file that it is kept in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from journal import Records
from peers_cells import Cell, code_hash, first_counted

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
        joint_cost_s: Counted cost of the shadow under one LRU over both tiers, which sees every request.
        learned_frac: Share of that shadow's whole cost that the one under the learned rule saved.
        stored_bytes: Bytes written to the host, counted.
        whole_stored_bytes: The same of the whole run.
        whole_span_s: From the first arrival to the last one's start, waits included.
        oversized_requests: Requests larger than the device (service timing).
        waited_s: Seconds that requests waited for room (service timing).
        arm_frac: Share of requests under each way to run.
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
    joint_cost_s: float = 0.0
    learned_frac: float = 0.0
    arm_frac: tuple[float, ...] = (1.0, 0.0, 0.0)
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


class Journal(Records[Run]):
    """Runs in a file of JSON lines.

    Args:
        path: The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _run)

    def named(self, name: str, cells: Iterable[Cell] | None = None) -> list[Run]:
        """The runs of that name, of all cells or of some."""
        wanted = None if cells is None else set(cells)
        return [run for run in self.records if run.name == name and (wanted is None or run.cell in wanted)]


def _run(row: dict[str, Any]) -> Run:
    truths = tuple(Truth(**truth) for truth in row["truths"])
    return Run(**row | {"cell": Cell(**row["cell"]), "arm_frac": tuple(row["arm_frac"]), "truths": truths})
