"""Run the benchmarks and write their tables into docs/benchmarks.md, with date, commit and command."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import inputs
import memory
import online
import peers
import quality
import speed

from autotune.core.clock import Clock, SystemClock
from autotune.core.files import write_atomically
from autotune.traces import adversarial

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_SPEED_ROUNDS, _MEMORY_ROUNDS = 7, 2
_MEASURED = ("autotune", "policies", "configs")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page that one run writes.

    Attributes:
        command: What prints the same tables.
        report: Gives the tables.
        traces: Traces that it cannot do without.
    """

    command: str
    report: Callable[[], str]
    traces: tuple[str, ...] = ()


def _quality(*traces: str) -> Section:
    return Section(
        f"python tests/benchmarks/quality.py --traces {','.join(traces)}", partial(quality.report_on, traces), traces
    )


def _peers(*traces: str, needs_folder: bool = False) -> Section:
    command = f"python tests/benchmarks/peers.py --names {','.join(traces)}"
    return Section(command, partial(peers.report_on, traces), traces if needs_folder else ())


def _online(part: str) -> Section:
    return Section(f"python tests/benchmarks/online.py {part}", partial(online.report_on, part))


SECTIONS = {
    "speed": Section(
        f"python tests/benchmarks/speed.py --rounds {_SPEED_ROUNDS}", partial(speed.report, _SPEED_ROUNDS)
    ),
    "memory": Section(
        f"python tests/benchmarks/memory.py --rounds {_MEMORY_ROUNDS}", partial(memory.report, _MEMORY_ROUNDS)
    ),
    "quality": _quality("conversation", "synthetic"),
    "quality-agentic": _quality("agentic"),
    "quality-lmcache": _quality("miniswe", "magagent", "taubench"),
    "peers": _peers("conversation", "synthetic"),
    "peers-agentic": _peers("agentic", needs_folder=True),
    "peers-lmcache": _peers("miniswe", "magagent", "taubench", needs_folder=True),
    "peers-adversarial": _peers(*adversarial.KINDS),
    **{f"online-{part}": _online(part) for part in online.EVERY},
}


def replaced(page: str, name: str, text: str) -> str:
    """The page with what stands between the marks of a section replaced.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = (f"<!-- {name}: {edge} -->" for edge in ("begin", "end"))
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"the page must have the marks {begin} and {end}; got neither or one; put them back")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def heading(command: str, clock: Clock) -> str:
    """When, on which commit, by which command and where something was measured."""
    given = f"{inputs.FOLDER_VARIABLE}=FOLDER " if os.environ.get(inputs.FOLDER_VARIABLE) else ""
    cores = len(os.sched_getaffinity(0))
    return (
        f"Measured {clock.utc_now():%Y-%m-%d} on commit {_commit()}, {cores} cores of {_processor()}, "
        f"Python {platform.python_version()}: `{given}{command}`"
    )


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=PAGE.parent, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", *(f":/{part}" for part in _MEASURED))
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def _processor() -> str:
    known = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return known[1] if known else platform.machine()


def main() -> None:
    """Run the sections that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=SECTIONS, help="all if none is named")
    at_hand = {one.name for one in inputs.all_inputs()}
    for name in parser.parse_args().sections or SECTIONS:
        section, clock = SECTIONS[name], SystemClock()
        if not at_hand.issuperset(section.traces):
            print(f"{name}: left as it stands; set {inputs.FOLDER_VARIABLE} to a folder of its traces", file=sys.stderr)
            continue
        print(f"{name}: measuring", file=sys.stderr)
        text = f"{heading(section.command, clock)}\n\n{section.report()}"
        write_atomically(PAGE, replaced(PAGE.read_text("utf-8"), name, text))


if __name__ == "__main__":
    main()
