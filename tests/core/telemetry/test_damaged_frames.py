"""Frames of telemetry that were damaged: records of numbers in range, or a ``TraceError``."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from autotune.core.access import AccessRecord
from autotune.core.errors import TraceError
from autotune.core.telemetry.reading import FrameReader

pytestmark = pytest.mark.engine("msgspec")
HEADER = [0, 0, 0, 1, "00112233445566aa", "2026-01-31T12:00:00.000Z", "vllm 0.32.0", "tiny", 32, 1024]
RUNS = [
    [0, 0, [2**64 - 1, 7], 64, 1, 4096, 0.5, [1.5, 2.0, 0.5, 7, "stop", None]],
    [0, 2, [9], 32, -1, 0, 0.0, [None] * 6],
]
FRAMES = [
    msgspec.msgpack.encode(each)
    for each in (HEADER, [1, 0, 0, 0.5, 11, -1, RUNS], [2, 1, 0, 1.5, "load", 4096, 0.25], [1, 2, 0, 2.5, 12, 5, RUNS])
]


def damage(seed: int, count: int) -> None:
    """Read damaged frames, a few per reader, in any order."""
    draw = random.Random(seed)
    refused = accepted = 0
    reader = FrameReader()
    for turn in range(count):
        if turn % 10 == 0:
            reader = FrameReader()
            reader.read(FRAMES[0])
        content = bytearray(draw.choice(FRAMES))
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(content) + 1)
            content[place : place + draw.choice([0, 1, 2, 9])] = draw.randbytes(draw.randrange(4))
        try:
            records = reader.read(bytes(content))
        except TraceError:
            refused += 1
            continue
        accepted += 1
        for record in records:
            assert math.isfinite(record.time_s)
            assert record.epoch <= reader.epoch
            if isinstance(record, AccessRecord):
                assert all(0 <= block < 2**64 for block in record.block_ids)
    assert min(refused, accepted) > count // 10


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_frames(seed: int) -> None:
    """Short form."""
    damage(seed, 5_000)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3, 6))
def test_damaged_frames_for_long(seed: int) -> None:
    """The same for longer."""
    damage(seed, 100_000)
