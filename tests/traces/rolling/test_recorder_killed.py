"""SIGKILL at any moment: what was confirmed is there, whole and in order, and the next start goes on beside it."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rolling_samples import request

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.compact import compact
from autotune.traces.rolling.epochs import segments_of

# Records for ever, tells how many requests were confirmed, and turns full journals into Parquet in between.
WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from rolling_samples import FACTS, SMALL, recorder, request
from dataclasses import replace
from autotune.traces.compact import compact
folder, compacts = Path(sys.argv[2]), sys.argv[3] == "yes"
writer = recorder(folder, bounds=replace(SMALL, max_bytes=2**30))
writer.begin_epoch(FACTS)
print("begun", flush=True)
for number in range(10**9):
    writer.append(request(number))
    if number % 5 == 4 and writer.flush():
        print(number + 1, flush=True)
    if compacts and number % 100 == 99:
        compact(folder)
"""


def killed(folder: Path, after_lines: int, compacts: bool) -> int:
    """Run the writer and kill it while it works; how many requests were confirmed at least."""
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(folder), "yes" if compacts else "no"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        confirmed = 0
        for _ in range(after_lines):
            assert select.select([process.stdout], [], [], 60.0)[0]
            confirmed = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        rest = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        return int(rest[-1]) if rest else confirmed


def check(folder: Path, epoch: int, confirmed: int) -> None:
    """An epoch holds at least what was confirmed, and exactly the requests that were appended."""
    try:
        trace = Trace.open(f"recording:{folder}", epoch=epoch)
    except TraceError:
        assert confirmed == 0
        return
    assert trace.n_requests >= confirmed
    expected = [request(number) for number in range(trace.n_requests)]
    assert trace.input_tokens.tolist() == [each.input_tokens for each in expected]
    assert trace.arrival_s.tolist() == [each.time_s for each in expected]


def run(folder: Path, kills: int, seed: int) -> None:
    """Kill the writer so often at random moments; every epoch stays as it was confirmed."""
    draw = random.Random(seed)
    confirmed: dict[int, int] = {}
    for turn in range(kills):
        count = killed(folder, draw.randrange(60), compacts=turn % 2 == 0)
        new = {name.epoch for name in segments_of(folder)} - set(confirmed)
        assert len(new) == 1 or (not new and count == 0)
        for epoch in new:
            confirmed[epoch] = count
            check(folder, epoch, count)
    compact(folder)
    for epoch, count in confirmed.items():
        if count:
            check(folder, epoch, count)


def test_a_few_kills(tmp_path: Path) -> None:
    """Short form."""
    run(tmp_path, kills=6, seed=1)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path) -> None:
    """Long form."""
    run(tmp_path, kills=200, seed=2)
