"""Pages of metrics, policies and traces, damaged by a seed, many in little time: the reader's own error or a value."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autotune.core.errors import AutotuneError, PolicyError, TraceError
from autotune.core.policy import parse
from autotune.core.trace import Trace
from autotune.export import render
from autotune.testing.documents import example_document
from autotune_collectors.prometheus import read_page

DATA = Path(__file__).parents[1] / "data"
LINES = 12  # of a page, so that many are read in little time
# One small trace per format: its name, and a file of which the first bytes are taken.
TRACES = {
    "mooncake": b"""{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [4, 7]}
{"timestamp": 1500, "input_length": 1100, "output_length": 9, "hash_ids": [4, 7, 9]}
""",
    "azure": b"""TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
""",
    "token-ids": b"""{"t": 0.5, "in": [1, 2, 3, 4], "out": [5]}
{"t": 1.5, "in": [1, 2, 3, 4, 5, 6], "out": [7, 8], "stop": "length"}
""",
    "libcachesim-csv": b"""time,id,size
1,17,512
2,18,512
3,17,512
""",
}


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Some bytes changed, cut out and put in."""
    piece = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(piece) + 1)
        piece[place : place + draw.choice([0, 1, 2, 30])] = draw.randbytes(draw.randrange(3)) or draw.choice(
            [b"", b"-", b"9" * 20, b"e9", b"\n", b'"', b"nan", b"[", b"{"]
        )
    return bytes(piece)


def metrics(draw: random.Random, _: Path) -> bool:
    """Read some lines of a damaged page; whether they were accepted."""
    lines = draw.choice(PAGES)
    start = draw.randrange(max(1, len(lines) - LINES))
    try:
        snapshot = read_page(damaged(draw, b"\n".join(lines[start : start + LINES]) + b"\n"), target="fuzz", at_s=1.0)
    except AutotuneError:
        return False
    assert all(reading.value is None or np.isfinite(reading.value) for reading in snapshot.readings.values())
    return True


def policies(draw: random.Random, _: Path) -> bool:
    """Read a damaged policy; whether it was accepted."""
    try:
        parse(damaged(draw, POLICY).decode("utf-8", "replace"))
    except PolicyError as error:
        assert "\n" not in str(error)
        return False
    return True


def traces(draw: random.Random, folder: Path) -> bool:
    """Read a damaged trace; whether it was accepted."""
    name = draw.choice(list(TRACES))
    file = folder / "t"
    file.write_bytes(damaged(draw, TRACES[name]))
    try:
        trace = Trace.open(f"{name}:{file}", on_error=draw.choice(["fail", "skip"]))
    except TraceError:
        return False
    assert np.all(np.diff(trace.arrival_s) >= 0)
    assert np.all((trace.block_ids >= 0) & (trace.block_ids < trace.n_blocks))
    return True


Reader = Callable[[random.Random, Path], bool]
PAGES = [path.read_bytes().splitlines() for path in sorted((DATA / "metrics").glob("*.prom"))]
POLICY = render(example_document()).encode()


def search(reader: Reader, seed: int, count: int, folder: Path) -> None:
    """Many inputs of one reader, of which some are accepted and some refused."""
    draw = random.Random(seed)
    accepted = sum(reader(draw, folder) for _ in range(count))
    assert 0 < accepted <= count


@pytest.mark.parametrize(("reader", "count"), [(metrics, 1_000), (policies, 1_000), (traces, 500)])
def test_damaged_inputs(reader: Reader, count: int, tmp_path: Path) -> None:
    """Short form."""
    search(reader, 1, count, tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(("reader", "count"), [(metrics, 60_000), (policies, 20_000), (traces, 25_000)])
def test_damaged_inputs_for_long(reader: Reader, count: int, seed: int, tmp_path: Path) -> None:
    """The same for longer."""
    search(reader, seed, count, tmp_path)
