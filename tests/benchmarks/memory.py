"""Peak memory and time of whole commands on a trace and on ten copies of it, one after the other.

Each copy has blocks of its own, which is the worst case: what is kept per block grows as fast as what is kept per
access. Peaks are proportional set sizes, summed over the command's processes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import inputs
from tables import table

from autotune.traces.recording import write_recording

TIMES = 10
MAX_BYTES_PER_ACCESS = 200
_COMMAND = Path(sys.executable).with_name("kv-autotune")
_EVERY_S = 0.02
_DEVICE = ("--device-blocks", "5000")
_TIERS = (*_DEVICE, "--host-blocks", "20000")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command used."""

    peak_bytes: int
    wall_s: float


def usage(arguments: list[str]) -> Usage:
    """Run the command line with these arguments and watch it.

    Raises:
        CalledProcessError: the command failed.
    """
    started_s = time.perf_counter()
    peak_bytes = 0
    with subprocess.Popen([_COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak_bytes = max(peak_bytes, sum(_proportional_bytes(pid) for pid in _family(process.pid)))
            time.sleep(_EVERY_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Usage(peak_bytes, time.perf_counter() - started_s)


def _family(pid: int) -> Iterator[int]:
    """A process and its descendants; those that end meanwhile are left out."""
    yield pid
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def report(rounds: int) -> str:
    """The table."""
    trace = inputs.sample("conversation")
    longer = inputs.repeated(trace, TIMES)
    added = longer.n_accesses - trace.n_accesses
    with TemporaryDirectory() as folder:
        short, long = (f"{folder}/{name}.parquet" for name in ("short", "long"))
        write_recording(trace, short)
        write_recording(longer, long)
        tuned = ["--trials", "20", "--out", folder]
        commands = {
            "simulate, LRU, device": ["simulate", *_DEVICE],
            "simulate, rank rule, device": ["simulate", "--policy", "rank", *_DEVICE],
            "simulate, clairvoyant, device and host": ["simulate", "--policy", "clairvoyant", *_TIERS],
            "tune, 20 trials, device": ["tune", *_DEVICE, *tuned],
            "tune, 20 trials, device and host": ["tune", *_TIERS, *tuned],
        }
        rows = []
        for name, arguments in commands.items():
            small, large = (_least(["--trace", f"recording:{path}"], arguments, rounds) for path in (short, long))
            slope = (large.peak_bytes - small.peak_bytes) / added
            rows.append(
                [
                    name,
                    f"{small.peak_bytes / 1e6:.0f} MB",
                    f"{large.peak_bytes / 1e6:.0f} MB",
                    f"{slope:.0f} bytes ({'within' if slope <= MAX_BYTES_PER_ACCESS else 'NOT within'} "
                    f"{MAX_BYTES_PER_ACCESS})",
                    f"{small.wall_s:.1f} s",
                    f"{large.wall_s:.1f} s",
                    f"{large.wall_s / small.wall_s:.1f}",
                ]
            )
    sizes = (f"{trace.n_accesses:,} accesses", f"{longer.n_accesses:,} accesses")
    heads = ["command", f"peak at {sizes[0]}", f"at {sizes[1]}", "per access", f"wall clock at {sizes[0]}", "", "ratio"]
    heads[5] = f"at {sizes[1]}"
    return table(heads, rows)


def _least(source: list[str], arguments: list[str], rounds: int) -> Usage:
    """The smallest peak and the shortest time of several runs: what disturbs a run only adds."""
    runs = [usage([arguments[0], *source, *arguments[1:]]) for _ in range(rounds)]
    return Usage(min(run.peak_bytes for run in runs), min(run.wall_s for run in runs))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    print(report(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
