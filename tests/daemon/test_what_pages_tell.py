"""What an engine's page tells reaches its other sources, and what they find out with it reaches the status."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from event_samples import CLEARED, EventServer, connect, encoded, removed, stored, wait_until
from sidecar_parts import Bench, Engine

from autotune.core.signals import Collected, EngineInfo, EngineTold, Reading, Signal, Snapshot
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import Tier
from autotune.daemon.engine_facts import told_by
from autotune.daemon.sources import Source
from autotune.daemon.status import Mode, TierStatus
from autotune.daemon.status_view import daemon_status
from autotune.daemon.target_view import METRICS, TargetView
from autotune.testing.clocks import ManualClock

FACTS = StreamFacts("vllm 0.32.0", "tiny", 16, 2048)
BLOCK_BYTES = 16 * 131_072  # as the engine of the tests says it


class Listener:
    """A source that remembers what it was told, and when it was asked."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def inform(self, told: EngineTold) -> None:
        """Remember it."""
        self.heard.append(told)

    def collect(self, now_s: float) -> Collected[Any]:
        """Nothing but the time."""
        self.heard.append(now_s)
        return Collected(ok=True, seconds=0.0)


class Page:
    """A source that shows one page."""

    name = METRICS

    def __init__(self, engine: EngineInfo, **gauges: float) -> None:
        self._engine, self._gauges = engine, gauges

    def collect(self, now_s: float) -> Collected[Any]:
        """The page."""
        readings = {Signal(name): Reading(value, now_s, name) for name, value in self._gauges.items()}
        return Collected(ok=True, seconds=0.0, snapshot=Snapshot("engine", now_s, self._engine, readings))


def told(engine: EngineInfo, *, facts: StreamFacts | None = FACTS, **gauges: float) -> EngineTold:
    """What a page tells."""
    view = TargetView("http://127.0.0.1:8000", [Source(Page(engine, **gauges))])
    view.update([Page(engine, **gauges).collect(1.0)])
    found = told_by(view, facts)
    assert found is not None
    return found


def test_a_source_hears_what_is_new_before_its_turn_and_once() -> None:
    """What is told twice alike is heard once, before the turn after it; another thing is heard again."""
    listener, news = Listener(), [EngineTold(telemetry=text) for text in ("a", "a", "b")]
    source = Source(listener)
    source.turn(0.0)
    for at_s, each in enumerate(news, 1):
        source.tell(each)
        source.turn(float(at_s))
    assert listener.heard == [0.0, news[0], 1.0, 2.0, news[2], 3.0]


def test_a_source_that_listens_to_nobody_is_asked_as_ever() -> None:
    """Collectors without an ear are told nothing and asked all the same."""
    source = Source(Page(EngineInfo("vllm")))
    source.tell(EngineTold(telemetry="file:/somewhere"))
    assert source.turn(1.0).ok


def test_the_page_of_vllm_counts_a_block_that_never_holds_anything() -> None:
    """Its pool has one block more than can hold KV; other engines are believed as they are."""
    gauges: dict[str, Any] = {"device_blocks": 41.0, "block_tokens": 16.0}
    assert told(EngineInfo("vllm", "0.32.0"), **gauges).capacity_blocks == {Tier.DEVICE: 40}
    assert told(EngineInfo("other"), **gauges).capacity_blocks == {Tier.DEVICE: 41}
    by_tokens = told(EngineInfo("sglang"), device_capacity_tokens=650.0, block_tokens=16.0)
    assert by_tokens.capacity_blocks == {Tier.DEVICE: 40}


def test_capacities_that_may_mean_something_else_are_left_out() -> None:
    """Several ranks, chunks of several blocks, sizes that are not told: nothing is claimed of them."""
    gauges: dict[str, Any] = {"device_blocks": 41.0, "block_tokens": 16.0, "plugin_capacity_chunks": 250.0}
    assert told(EngineInfo("vllm"), **gauges).capacity_blocks == {Tier.DEVICE: 40, Tier.HOST: 250}
    assert told(EngineInfo("vllm", ranks=2), **gauges).capacity_blocks == {}
    large = StreamFacts("vllm 0.32.0", "tiny", 32, 2048)
    assert told(EngineInfo("vllm"), facts=large, **gauges).capacity_blocks == {Tier.DEVICE: 40}
    assert told(EngineInfo("vllm"), facts=None, **gauges).capacity_blocks == {Tier.DEVICE: 40}
    assert told(EngineInfo("vllm")).capacity_blocks == {}


def test_the_engine_is_described_by_its_page_and_its_telemetry() -> None:
    """Name, version, model and blocks are the page's; the size of a token only telemetry knows."""
    info = EngineInfo("vllm", "0.32.0", "served", facts={"telemetry": "file:///records"})
    found = told(info, block_tokens=16.0)
    assert found.facts == StreamFacts("vllm 0.32.0", "served", 16, 2048)
    assert found.telemetry == "file:///records"
    assert told(info, facts=None, block_tokens=16.0).facts == StreamFacts("vllm 0.32.0", "served", 16, 0)


def test_an_engine_that_has_not_answered_tells_nothing() -> None:
    """Before the first page there is nothing to hand on."""
    assert told_by(TargetView("http://127.0.0.1:8000", [Source(Page(EngineInfo()))]), None) is None


def tier(bench: Bench, which: Tier) -> TierStatus:
    """One tier as the status shows it."""
    status = daemon_status(bench.loop, datetime(2026, 1, 31, tzinfo=UTC), stopped=False, group="g")
    return next(each for each in status.tiers if each.tier is which)


@pytest.mark.engine("msgspec", "zmq")
def test_tiers_become_known_once_they_are_full_without_a_restart_or_a_clear(tmp_path: Path) -> None:
    """Attached in the middle and nobody to ask: when as many blocks lie there as the page says fit, all are known."""
    from autotune_collectors.kv_events.collector import EventSource, KvEventsCollector

    clock = ManualClock()
    engine = Engine(clock, gauges={Signal.DEVICE_BLOCKS: 4.0, Signal.BLOCK_TOKENS: 16.0})
    server = EventServer(f"ipc://{tmp_path}/pub", None, first=50)
    events = KvEventsCollector(EventSource(f"ipc://{tmp_path}/pub", interval_s=0.0))
    try:
        bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False, clock=clock, engine=engine, further=(events,))
        bench.rounds(2)
        connect(server, events)
        n_sent = 0

        def send(*payloads: Any) -> None:
            nonlocal n_sent
            for payload in payloads:
                server.publish(encoded(payload))
                n_sent += 1

            def met() -> bool:
                bench.rounds(1)
                return events.view().stream.messages == n_sent

            wait_until(met)

        send(stored(1), stored(2))
        assert tier(bench, Tier.DEVICE).used_bytes is None
        send(stored(3))
        assert tier(bench, Tier.DEVICE).used_bytes == 3 * BLOCK_BYTES
        send(removed(2))
        assert tier(bench, Tier.DEVICE).used_bytes == 2 * BLOCK_BYTES
        send(stored(4), stored(5))
        assert tier(bench, Tier.DEVICE).used_bytes is None  # more than there is room for: something is not known
        send(CLEARED)
        assert tier(bench, Tier.DEVICE).used_bytes == 0
    finally:
        events.close()
        server.close()


def test_the_host_is_as_full_as_its_page_or_the_plug_in_says(tmp_path: Path) -> None:
    """Bytes that the page states come first, then chunks of the plug-in; a device without events is not known."""
    engine = Engine(ManualClock(), gauges={Signal.BLOCK_TOKENS: 16.0, Signal.PLUGIN_RESIDENT_CHUNKS: 7.0})
    bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False, clock=engine.clock, engine=engine)
    bench.rounds(2)
    assert tier(bench, Tier.HOST).used_bytes == 7 * BLOCK_BYTES
    assert tier(bench, Tier.DEVICE).used_bytes is None
    engine.gauges[Signal.HOST_USED_BYTES] = 12_345.0
    bench.rounds(1)
    assert tier(bench, Tier.HOST).used_bytes == 12_345
