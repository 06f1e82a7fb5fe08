"""From the plug-in's own records, and from a stock engine's events, to a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rolling_samples import recorder

from autotune.core.access import AccessFeatures, AccessRecord
from autotune.core.decide.features import EXPECTED_IDLE_S, N_FEATURES, PRIORITY, SESSION_END, UNKNOWN
from autotune.core.errors import TraceError
from autotune.core.telemetry.events import StoredRun
from autotune.core.telemetry.wire import Direction, EpochCause, EpochStart, StreamFacts, TransferRecord
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.traces.rolling.columns import read_segment
from autotune.traces.rolling.epochs import EvidenceGrade, segments_of
from autotune.traces.rolling.feed import FedRecord, RecordingFeed
from autotune.traces.rolling.manifest import Manifest

FACTS = StreamFacts("vllm 0.32.0", "tiny", 32, 1024)
START = EpochStart(0, EpochCause.ATTACHED, "ab", "2026-01-31T12:00:00.000Z", FACTS)
EVENTS_START = replace(START, stream="")
FEATURES = AccessFeatures(output_tokens=7, stop_reason="stop")


def run(request: int, blocks: tuple[int, ...], first: int, tier: Tier | None, epoch: int = 0) -> AccessRecord:
    """A run of a request."""
    return AccessRecord(float(request), epoch, request, 99, blocks, first, 32 * len(blocks), tier, 0, 0.0, FEATURES)


def fed(folder: Path, *records: FedRecord) -> RecordingFeed:
    """Records through a feed to a folder."""
    writer = recorder(folder)
    feed = RecordingFeed(writer)
    feed.take(records)
    writer.close()
    return feed


def test_runs_of_a_request_become_one(tmp_path: Path) -> None:
    """What the device had, what the host had, and what was computed, in one row; copies between are passed over."""
    fed(
        tmp_path,
        START,
        run(1, (5, 6), 0, Tier.DEVICE),
        run(1, (7,), 2, Tier.HOST),
        run(1, (8,), 3, None),
        TransferRecord(1.0, 0, Direction.LOAD, 10, 0.1),
        run(2, (5,), 0, None),
    )
    trace = Trace.open(f"recording:{tmp_path}")
    assert [trace.blocks_of(request).tolist() for request in (0, 1)] == [[0, 1, 2, 3], [0]]
    assert trace.input_tokens.tolist() == [128, 32]
    assert trace.output_tokens.tolist() == [7, 7]
    assert trace.stop_reasons == ("stop",)
    (path,) = segments_of(tmp_path).values()
    columns = read_segment(path)
    assert columns is not None
    assert columns.rows["device_blocks"].tolist() == [2, 0]
    assert columns.rows["host_blocks"].tolist() == [1, 0]


def test_a_session_is_one_only_where_the_client_named_it(tmp_path: Path) -> None:
    """The number that ties requests by their first block is shared by strangers, so it is no conversation."""
    named = replace(run(2, (1,), 0, None), features=replace(FEATURES, turn=0))
    fed(tmp_path, START, run(1, (1,), 0, None), named)
    assert Trace.open(f"recording:{tmp_path}").session.tolist() == [-1, 0]


def test_hints_are_those_of_the_features(tmp_path: Path) -> None:
    """What the client told stands among the features of the stretches; where nobody told anything there is nothing."""
    vector = [UNKNOWN] * N_FEATURES
    vector[SESSION_END], vector[EXPECTED_IDLE_S], vector[PRIORITY] = 1.0, 12.5, 3.0
    told = replace(FEATURES, runs=((1, tuple(vector)),))
    silent = replace(FEATURES, runs=((1, (UNKNOWN,) * N_FEATURES),))
    odd = replace(FEATURES, runs=((1, (7.0,) * N_FEATURES), (1, (1.0, 2.0))))
    records = [replace(run(n, (n,), 0, None), features=given) for n, given in enumerate((told, silent, odd, FEATURES))]
    fed(tmp_path / "told", START, *records)
    hints = Trace.open(f"recording:{tmp_path / 'told'}").hints
    assert hints is not None
    assert hints.session_end.tolist() == [1, -1, -1, -1]
    assert hints.expected_idle_s.tolist() == [12.5, -1.0, -1.0, -1.0]
    assert hints.priority.tolist() == [3, -1, -1, -1]
    fed(tmp_path / "silent", START, *records[1:])
    assert Trace.open(f"recording:{tmp_path / 'silent'}").hints is None


def test_runs_that_do_not_fit_end_the_epoch(tmp_path: Path) -> None:
    """A request whose middle is missing is left out and counted; those before and after are not joined."""
    odd = (run(2, (1,), 0, None), run(2, (3,), 2, None))
    feed = fed(tmp_path, START, run(1, (1,), 0, None), *odd, run(3, (1,), 0, None))
    assert feed.odd == 1
    assert [(each.epoch, each.requests) for each in Manifest.open(tmp_path).epochs] == [(1, 1), (2, 1)]


def test_epochs_of_a_collector_are_epochs_of_the_recording(tmp_path: Path) -> None:
    """Each mark begins one, with its cause and facts; what came before the first is not kept."""
    second = EpochStart(1, EpochCause.LOST, "ab", "2026-01-31T12:01:00.000Z", FACTS)
    records = (run(1, (1,), 0, None), START, run(2, (1,), 0, None), second, run(3, (1,), 0, None, 1))
    fed(tmp_path, *records)
    told = Manifest.open(tmp_path).epochs
    assert [(each.facts.cause, each.facts.start_utc, each.requests) for each in told] == [
        (EpochCause.ATTACHED, START.start_utc, 1),
        (EpochCause.LOST, second.start_utc, 1),
    ]
    assert told[0].facts.block_tokens == 32


def test_events_of_a_stock_engine_are_kept_and_no_trace(tmp_path: Path) -> None:
    """Stored runs are rows of grade events_only, which no cache is tuned on."""
    runs = [StoredRun(float(number), 0, (number, number + 1), None, 64) for number in range(5)]
    fed(tmp_path, EVENTS_START, *runs)
    (path,) = segments_of(tmp_path).values()
    columns = read_segment(path)
    assert columns is not None
    assert columns.facts.grade is EvidenceGrade.EVENTS_ONLY
    assert columns.block_ids.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    with pytest.raises(TraceError, match="events_only"):
        Trace.open(f"recording:{tmp_path}")


def test_of_two_sources_one_is_written(tmp_path: Path) -> None:
    """Events until telemetry begins, and from then on telemetry alone: no request is written twice, and none mixed."""
    events = [StoredRun(float(number), 0, (number,), None, 32) for number in range(4)]
    feed = fed(
        tmp_path,
        EVENTS_START,
        *events[:2],
        run(1, (8,), 0, None),
        START,
        run(2, (8,), 0, None),
        events[2],
        replace(EVENTS_START, epoch=1),
        events[3],
        run(3, (8,), 0, None),
    )
    assert feed.grade is EvidenceGrade.TELEMETRY
    told = [(each.facts.grade, each.requests) for each in Manifest.open(tmp_path).epochs]
    assert told == [(EvidenceGrade.EVENTS_ONLY, 2), (EvidenceGrade.TELEMETRY, 2)]
    assert Trace.open(f"recording:{tmp_path}").n_requests == 2
