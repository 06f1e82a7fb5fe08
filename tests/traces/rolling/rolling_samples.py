"""Requests and epochs for tests of recordings."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from autotune.core.telemetry.wire import EpochCause
from autotune.core.trace_hints import NO_HINTS, RequestHints
from autotune.testing.clocks import ManualClock
from autotune.traces.rolling.epochs import EpochFacts, EvidenceGrade, RecordedRequest
from autotune.traces.rolling.recorder import Recorder, RecordingBounds

FACTS = EpochFacts(
    EvidenceGrade.TELEMETRY,
    EpochCause.ATTACHED,
    "2026-01-31T12:00:00.000Z",
    "vllm 0.32.0",
    "tiny",
    32,
    1024,
    "00112233445566aa",
)
SMALL = RecordingBounds(max_bytes=2**20, segment_bytes=4_096, segment_s=1e9)


def request(number: int, seed: int = 0) -> RecordedRequest:
    """A request that shares its first blocks with others."""
    draw = random.Random(f"{seed} {number}")
    blocks = [2**64 - 1 - depth for depth in range(draw.randrange(4))] + [draw.randrange(2**64) for _ in range(3)]
    return RecordedRequest(
        time_s=number * 0.25,
        input_tokens=32 * len(blocks) + 5,
        output_tokens=draw.randrange(100),
        block_ids=blocks,
        session=draw.choice([-1, 5, 2**62]),
        stop_reason=draw.choice(["", "stop", "length"]),
        device_blocks=1,
        host_blocks=1,
    )


def hinted(number: int) -> RecordedRequest:
    """The same, of a client that tells something with two of three requests."""
    told = (NO_HINTS, RequestHints(session_end=number % 2), RequestHints(0, number / 8, number))[number % 3]
    return replace(request(number), hints=told)


def recorder(folder: Path, clock: ManualClock | None = None, bounds: RecordingBounds = SMALL) -> Recorder:
    """A recorder with small segments."""
    return Recorder(folder, clock or ManualClock(), bounds)


def record(folder: Path, numbers: range, seed: int = 0, facts: EpochFacts = FACTS) -> None:
    """Write one epoch and close it."""
    writer = recorder(folder)
    writer.begin_epoch(facts)
    for number in numbers:
        writer.append(request(number, seed))
    assert writer.flush()
    writer.close()
