"""Every policy beside its peers in one run: traces × capacities × timings × seeds, in seconds, hits and bytes.

Device C1 and host 4 × C1, C1 as a share of the footprint; Llama-3.1-8B on an H100, a link of 40 GB/s. The first fifth
of the time fills the caches and is not counted; it is also all that a policy may look at to find its settings, but for
those that go on learning. A policy named alone governs the host, the device keeps LRU, and blocks are stored when they
are computed.

Results are appended to a file of JSON lines as they come, so that a run goes on where it was interrupted. Give another
file, or ``--redo``, after the code has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import inputs
import peers_plots
from peers_cells import Cell, Figures, Results, code_hash, figures_of
from peers_policies import BOUND, LRU, Peer, Task, peers
from peers_tables import SAME_MODE, report, rows_of
from peers_traces import opened, seeded_traces

from autotune.core.clock import SystemClock

FRACS = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
TIMINGS = ("instant", "service")
RESULTS = Path("out") / "peers.jsonl"
SEEDS, TRIALS = 5, 100
DETAILED = (0.01,)  # capacities whose columns all stand on the page
PLAIN_ACCESSES = 250_000  # a policy in plain Python does about 100,000 block accesses per second


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        cells: All of them, trace by trace and seed by seed.
        peers: The policies.
        trials: Settings that a search tries.
        plain_accesses: Longest trace for policies in plain Python.
    """

    cells: Sequence[Cell]
    peers: Sequence[Peer]
    trials: int = TRIALS
    plain_accesses: int = PLAIN_ACCESSES

    def pending(self, results: Results, redo: Sequence[str]) -> Iterator[tuple[Cell, Peer]]:
        """What is not in the results yet, or is to be done again."""
        for cell in self.cells:
            for peer in self.peers:
                if cell.tiers in peer.tiers and ((cell, peer.name) not in results or peer.name in redo):
                    yield cell, peer


def cells(
    names: Sequence[str], fracs: Sequence[float], timings: Sequence[str], tiers: Sequence[str], seeds: int
) -> list[Cell]:
    """Every cell; a device alone is compared under instant timing only."""
    pairs = [("two", timing) for timing in timings if "two" in tiers]
    pairs += [("one", "instant")] if "one" in tiers else []
    return [
        Cell(name, tier, frac, timing, seed)
        for name in names
        for seed in range(seeds)
        for tier, timing in pairs
        for frac in fracs
    ]


def run(plan: Plan, results: Results, redo: Sequence[str] = ()) -> None:
    """Run what is pending, one after the other, and say how far it is."""
    todo, clock = list(plan.pending(results, redo)), SystemClock()
    tasks: dict[Cell, Task] = {}
    for number, (cell, peer) in enumerate(todo, start=1):
        if cell not in tasks:
            tasks = {cell: Task(cell, plan.trials)}  # the last cell's trace and turnover may go
        task = tasks[cell]
        if peer.is_plain and opened(cell.trace, cell.seed).n_accesses > plan.plain_accesses:
            continue
        started_s = clock.monotonic_s()
        outcome = peer.run(task)
        took_s = clock.monotonic_s() - started_s
        if outcome is not None:
            cache, found = outcome
            results.add(figures_of(cell, peer.name, found, cache, took_s))
        print(f"{number}/{len(todo)} {cell}, seed {cell.seed}: {peer.name}, {took_s:.1f} s", file=sys.stderr)


def report_on(names: Sequence[str]) -> str:
    """All capacities, timings and tiers of these traces, five seeds; goes on from the results that there are.

    Writes the pictures too, of all results that there are.
    """
    every = Plan(cells(names, FRACS, TIMINGS, ("two", "one"), SEEDS), peers())
    results = Results(RESULTS)
    run(every, results)
    known = [name for name in seeded_traces() if any(cell.trace == name for cell in results.cells)]
    whole = Plan(cells(known, FRACS, TIMINGS, ("two",), SEEDS), every.peers)
    peers_plots.write(rows_of(_ordered(whole, results)))
    return report(_ordered(every, results), DETAILED)


def _ordered(plan: Plan, results: Results) -> list[Figures]:
    """Results trace by trace, then by tiers, timing and capacity, the policies in the order of the tables."""
    traces = list(dict.fromkeys(cell.trace for cell in plan.cells))
    by_table = sorted(plan.cells, key=lambda c: (traces.index(c.trace), c.tiers != "two", c.timing, c.device_frac))
    return results.of(by_table, [peer.name for peer in plan.peers])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", metavar="DIR", help=f"folder of further traces; else {inputs.FOLDER_VARIABLE}")
    parser.add_argument("--names", help="traces, separated by commas; all that are at hand if not given")
    parser.add_argument("--fracs", default=",".join(map(str, FRACS)), help="C1 as shares of the footprint")
    parser.add_argument("--timings", default=",".join(TIMINGS))
    parser.add_argument("--tiers", default="two,one")
    parser.add_argument("--policies", help="names as in the tables, separated by semicolons; all if not given")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--plain-accesses", type=int, default=PLAIN_ACCESSES)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--redo", default="", help="names of policies whose results are to be replaced")
    parser.add_argument("--json", action="store_true", help="print rows instead of tables")
    parser.add_argument("--plots", action="store_true", help=f"write pictures into {peers_plots.FOLDER.name}/")
    given = parser.parse_args()
    if given.traces:
        os.environ[inputs.FOLDER_VARIABLE] = given.traces
    return given


def main() -> None:
    """Run what is asked for and print it."""
    given = _arguments()
    known, every = seeded_traces(), peers()
    names = given.names.split(",") if given.names else list(known)
    wanted = given.policies.split(";") if given.policies else [peer.name for peer in every]
    for what, asked, there in (("traces", names, known), ("policies", wanted, {peer.name for peer in every})):
        if unknown := sorted(set(asked) - set(there)):
            raise SystemExit(f"{what} must be known; got {', '.join(unknown)}; known: {', '.join(there)}")
    fracs = [float(frac) for frac in given.fracs.split(",")]
    plan = Plan(
        cells(names, fracs, given.timings.split(","), given.tiers.split(","), given.seeds),
        [peer for peer in every if peer.name in {*wanted, LRU, BOUND, *SAME_MODE.values()}],
        given.trials,
        given.plain_accesses,
    )
    results = Results(given.results)
    run(plan, results, given.redo.split(";"))
    _show(_ordered(plan, results), as_json=given.json, plots=given.plots)


def _show(figures: Sequence[Figures], *, as_json: bool, plots: bool) -> None:
    rows = rows_of(figures)
    print(json.dumps([asdict(row) for row in rows]) if as_json else report(figures))
    if plots:
        for file in peers_plots.write(rows):
            print(file, file=sys.stderr)
    stale = sum(one.code != code_hash() for one in figures)
    if stale:
        print(f"{stale} of {len(figures)} results are of another version of the code", file=sys.stderr)


if __name__ == "__main__":
    main()
