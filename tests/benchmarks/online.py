"""The learned policy beside LRU: its aims, that it never loses, write budgets, its signals, and its speed.

Device C1 and host 4 × C1, C1 as a share of the footprint; Llama-3.1-8B on an H100, a link of 40 GB/s. A seed draws the
rows that are fitted and, in a trace whose clock ticks, where in its tick a request arrives; in ``agentic``, when each
session begins instead; in an adversarial trace, all of it.

Runs are appended to a file of JSON lines as they come, so that work goes on where it was interrupted. Give another file
after the code has changed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import inputs
import online_speed
import online_tables
import online_writes
from online_cells import Journal
from online_plan import PARTS, SEEDS, at_hand, pending
from online_runs import OnlineTask, run
from peers_cells import Cell, code_hash

JOURNAL = Path("out") / "online.jsonl"
EVERY = (*PARTS, "speed")


def work(parts: Sequence[str], names: Sequence[str], seeds: int, journal: Journal) -> None:
    """Run what is pending, one after the other, and say how far it is."""
    todo = list(pending(parts, names, seeds, journal))
    tasks: dict[Cell, OnlineTask] = {}
    for number, job in enumerate(todo, start=1):
        if (job.cell, job.name) in journal:
            continue  # a budget has run LRU for itself
        if job.cell not in tasks:
            tasks = {job.cell: OnlineTask(job.cell, 0, journal)}  # the last cell's trace may go
        found = run(tasks[job.cell], job.name)
        journal.add(found)
        print(
            f"{number}/{len(todo)} {job.cell}, seed {job.cell.seed}: {job.name}, {found.took_s:.1f} s", file=sys.stderr
        )


def report_on(part: str) -> str:
    """One part, with all traces at hand and five seeds; goes on from the runs that there are, and draws the picture."""
    if part == "speed":
        return online_speed.report()
    journal = Journal(JOURNAL)
    work([part], at_hand(), SEEDS, journal)
    if part == "budget":
        online_writes.draw(journal)
    return online_tables.report(part, journal)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=EVERY, help="all if none is named")
    parser.add_argument("--traces", metavar="DIR", help=f"folder of further traces; else {inputs.FOLDER_VARIABLE}")
    parser.add_argument("--names", help="traces, separated by commas; all that are at hand if not given")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--tables-only", action="store_true", help="of the runs that there are")
    given = parser.parse_args()
    if given.traces:
        os.environ[inputs.FOLDER_VARIABLE] = given.traces
    return given


def main() -> None:
    """Run what is asked for and print it."""
    given = _arguments()
    parts = [part for part in EVERY if part in (given.parts or EVERY)]
    names = given.names.split(",") if given.names else at_hand()
    if unknown := sorted(set(names) - set(at_hand())):
        raise SystemExit(f"traces must be known; got {', '.join(unknown)}; known: {', '.join(at_hand())}")
    journal = Journal(given.journal)
    if not given.tables_only:
        work([part for part in parts if part in PARTS], names, given.seeds, journal)
    for part in parts:
        text = online_speed.report() if part == "speed" else online_tables.report(part, journal)
        print(f"{text}\n")
    stale = sum(one.code != code_hash() for one in journal.records)
    if stale:
        print(f"{stale} of {len(journal.records)} runs are of another version of the code", file=sys.stderr)


if __name__ == "__main__":
    main()
