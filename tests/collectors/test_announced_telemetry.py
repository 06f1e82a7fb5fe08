"""Records are read from where the engine's page says, as far as this machine reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.advise.live import read_saved_page
from autotune.core.access import AccessRecord
from autotune.core.signals import EngineTold, Target
from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.types import Tier
from autotune.testing.clocks import ManualClock
from autotune_collectors.announced import reached
from autotune_collectors.telemetry import TelemetryCollector
from autotune_policies.engines.live.record_stream import RecordStream
from autotune_policies.engines.live.records import RequestAccess, Run
from autotune_policies.engines.live.segments import SegmentWriter
from autotune_policies.engines.live.targets import TelemetryTarget
from autotune_policies.engines.vllm.series import TELEMETRY_INFO

HERE, THERE = Target("http://127.0.0.1:18210"), Target("http://10.1.2.3:8000")
FACTS = StreamFacts("vllm 0.32.0", "tiny", 32, 1024)


@pytest.mark.parametrize(
    ("place", "here", "there"),
    [
        ("file:///var/records", "file:///var/records", None),
        ("file:/var/records", "file:/var/records", None),
        ("file://records", None, None),
        ("ipc:///run/kv.sock", "ipc:///run/kv.sock", None),
        ("tcp://127.0.0.1:5600", "tcp://127.0.0.1:5600", None),
        ("tcp://localhost:5600", "tcp://localhost:5600", None),
        ("tcp://[::1]:5600", "tcp://[::1]:5600", None),
        ("tcp://0.0.0.0:5600", "tcp://127.0.0.1:5600", "tcp://10.1.2.3:5600"),
        ("tcp://10.9.9.9:5600", "tcp://10.9.9.9:5600", "tcp://10.9.9.9:5600"),
        ("http://127.0.0.1/records", None, None),
        ("file:/var/\x1b[31m", None, None),
        ("file:/" + 512 * "a", None, None),
    ],
)
def test_places_are_named_as_this_machine_reaches_them(place: str, here: str | None, there: str | None) -> None:
    """Folders, sockets and loopback ports are the engine's machine's own; other texts are no places."""
    assert (reached(place, HERE), reached(place, THERE)) == (here, there)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:5600", "ipc:///run/kv.sock", "file:/var/records"])
def test_what_the_plug_in_announces_is_what_its_page_tells_and_what_is_reached(text: str) -> None:
    """From the setting through the page to the reader, nothing is lost on the way."""
    place = TelemetryTarget.parse(text).endpoint
    page = f'vllm:prompt_tokens_total{{engine="0"}} 1\n{TELEMETRY_INFO.name}{{engine="0",telemetry="{place}"}} 1.0\n'
    told = read_saved_page(page.encode(), target="test").engine.facts["telemetry"]
    assert reached(told, HERE) == place
    assert TelemetryTarget.parse(told) == TelemetryTarget.parse(text)


def test_a_plug_in_without_telemetry_announces_no_place() -> None:
    """The page says none, which is nothing to go to."""
    page = f'vllm:prompt_tokens_total{{engine="0"}} 1\n{TELEMETRY_INFO.name}{{engine="0",telemetry="none"}} 1.0\n'
    assert "telemetry" not in read_saved_page(page.encode(), target="test").engine.facts


def write(folder: Path, requests: range) -> None:
    """Let an engine tell about some requests; each call is another start of it."""
    stream = RecordStream(FACTS, SegmentWriter(folder, 2**25, ManualClock()), ManualClock())
    for request in requests:
        keys = (request.to_bytes(32, "big") + bytes(4),)
        stream.write(RequestAccess(request * 10**9, request, -1, (Run(keys, 0, 32, Tier.DEVICE),)), 0)


def requests(records: Any) -> list[int]:
    """The requests among these records."""
    return [record.request for record in records if isinstance(record, AccessRecord)]


@pytest.fixture
def collector() -> TelemetryCollector:
    """One that goes where the page of an engine on this machine says."""
    return TelemetryCollector.announced(HERE, ManualClock())


@pytest.mark.engine("msgspec", "zmq")
def test_records_come_as_soon_as_the_page_says_where_they_are(tmp_path: Path, collector: TelemetryCollector) -> None:
    """Before that the reason is told, with what to do; afterwards it is as if the place had been given."""
    write(tmp_path, range(3))
    before = collector.collect(0.0)
    assert (before.ok, before.records) == (False, ())
    assert before.error is not None and "--telemetry" in before.error
    collector.inform(EngineTold(telemetry=f"file:{tmp_path}"))
    assert requests(collector.collect(1.0).records) == [0, 1, 2]
    collector.inform(EngineTold(telemetry=f"file:{tmp_path}"))
    collector.inform(EngineTold())
    turn = collector.collect(2.0)
    assert (turn.ok, turn.records) == (True, [])


@pytest.mark.engine("msgspec", "zmq")
def test_another_place_is_another_start_of_the_engine(tmp_path: Path, collector: TelemetryCollector) -> None:
    """After a restart with another folder the records go on in a new epoch that says so."""
    write(tmp_path / "a", range(2))
    write(tmp_path / "b", range(5, 7))
    collector.inform(EngineTold(telemetry=f"file:{tmp_path / 'a'}"))
    first = collector.collect(0.0).records
    collector.inform(EngineTold(telemetry=f"file:{tmp_path / 'b'}"))
    second = collector.collect(1.0).records
    assert (requests(first), requests(second)) == ([0, 1], [5, 6])
    starts = [record for record in (*first, *second) if isinstance(record, EpochStart)]
    assert [(start.epoch, start.cause) for start in starts] == [(0, EpochCause.ATTACHED), (1, EpochCause.RESTARTED)]


@pytest.mark.engine("msgspec", "zmq")
def test_a_place_that_is_not_reached_is_told(collector: TelemetryCollector) -> None:
    """Text that is no place, and a folder on another machine: the reason names it, and nothing is opened."""
    far = TelemetryCollector.announced(THERE, ManualClock())
    for each, place in ((far, "file:/var/records"), (collector, "tcp://nowhere at all")):
        each.inform(EngineTold(telemetry=place))
        turn = each.collect(0.0)
        assert not turn.ok and turn.error
        each.close()
    assert "file:/var/records of the engine's machine" in str(far.collect(1.0).error)


@pytest.mark.engine("msgspec", "zmq")
def test_a_place_that_was_given_is_not_left(tmp_path: Path) -> None:
    """What the user says holds, whatever the page says."""
    write(tmp_path / "given", range(2))
    collector = TelemetryCollector(f"file:{tmp_path / 'given'}")
    collector.inform(EngineTold(telemetry=f"file:{tmp_path / 'told'}"))
    assert requests(collector.collect(0.0).records) == [0, 1]
