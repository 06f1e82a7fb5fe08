"""Over real sockets: nothing is missed unseen, whatever is lost, repeated, or restarted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from event_samples import (
    CLEARED,
    EventServer,
    block_sets,
    connect,
    encoded,
    number,
    recorded,
    removed,
    stored,
    wait_until,
)

from autotune.core.errors import AutotuneError
from autotune.core.signals import EngineTold, Signal
from autotune.core.telemetry.events import StoredRun
from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.types import Tier

pytestmark = pytest.mark.engine("msgspec", "zmq")


@contextmanager
def serving(folder: Path, *, replays: bool = True, **options: Any) -> Iterator[EventServer]:
    """A publisher in a folder."""
    server = EventServer(f"ipc://{folder}/pub", f"ipc://{folder}/replay" if replays else None, **options)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def collecting(folder: Path, *, replays: bool = True, **options: Any) -> Iterator[Any]:
    """A collector of the publisher in a folder, without a thread of its own unless asked for."""
    from autotune_collectors.kv_events.collector import EventSource, KvEventsCollector

    replay = f"ipc://{folder}/replay" if replays else None
    source = EventSource(f"ipc://{folder}/pub", replay, **{"interval_s": 0.0, "replay_timeout_s": 0.5} | options)
    collector = KvEventsCollector(source, StreamFacts("vllm", "tiny", 16, 0))
    try:
        yield collector
    finally:
        collector.close()


def collect_until(collector: Any, n_messages: int) -> list[Any]:
    """The records that came until so many live messages were met."""
    records: list[Any] = []

    def met() -> bool:
        records.extend(collector.collect(0.0).records)
        return int(collector.view().stream.messages) >= n_messages

    wait_until(met)
    return records


def device(collector: Any) -> Any:
    """What is known of the device."""
    return collector.view().tiers[Tier.DEVICE]


def test_a_recorded_stream_is_followed(tmp_path: Path) -> None:
    """A real engine's messages: the device and the host hold what they held, and nothing was missed."""
    payloads = [message[-1] for message in recorded("live")]
    with serving(tmp_path) as server, collecting(tmp_path) as collector:
        connect(server, collector)
        for payload in payloads:
            server.publish(payload)
        records = collect_until(collector, len(payloads))
        view = collector.view()
    expected = block_sets(payloads)
    assert view.tiers[Tier.DEVICE].resident_blocks == len(expected["GPU"])
    assert view.tiers[Tier.HOST].resident_blocks == len(expected["CPU"])
    assert (view.stream.gaps, view.stream.lost_messages, view.stream.malformed_messages) == (0, 0, 0)
    assert [type(record) for record in records[:2]] == [EpochStart, StoredRun]
    assert {record.epoch for record in records} == {0}


def test_a_late_collector_fetches_what_was_before_it(tmp_path: Path) -> None:
    """Attached in the middle, it asks for everything since the start; the state is as if it had been there."""
    with serving(tmp_path) as server, collecting(tmp_path) as collector:
        for block in range(20):
            server.publish(encoded(stored(block)))
        wait_until(lambda: collector.collect(0.0).ok and device(collector).resident_blocks == 20)
        connect(server, collector)
        server.publish(encoded(stored(20)))
        collect_until(collector, 1)
        assert device(collector).resident_blocks == 21
        assert collector.view().stream.replayed_messages == 20


def test_a_late_collector_without_replays_claims_nothing_until_it_can(tmp_path: Path) -> None:
    """Attached in the middle and nobody to ask: blocks are not claimed until the cache is cleared."""
    with serving(tmp_path, replays=False, first=50) as server, collecting(tmp_path, replays=False) as collector:
        connect(server, collector)
        server.publish(encoded(stored(1)))
        collect_until(collector, 1)
        assert (device(collector).usable, device(collector).resident_blocks) == (False, None)
        server.publish(encoded(CLEARED, stored(2)))
        collect_until(collector, 2)
        assert device(collector).resident_blocks == 1


def test_a_gap_is_filled_by_a_replay(tmp_path: Path) -> None:
    """Messages lost on the way are asked for; state and records are whole and the epoch goes on."""
    with serving(tmp_path) as server, collecting(tmp_path) as collector:
        connect(server, collector)
        for block in range(30):
            server.publish(encoded(stored(block)), is_sent=block not in range(10, 20))
        records = collect_until(collector, 20)
        view = collector.view()
    assert view.tiers[Tier.DEVICE].resident_blocks == 30
    assert (view.stream.gaps, view.stream.lost_messages) == (1, 0)
    assert [run.block_ids[0] for run in records if isinstance(run, StoredRun)] == list(range(30))
    assert {record.epoch for record in records} == {0}


@pytest.mark.parametrize("replays", [True, False])
def test_a_gap_that_cannot_be_filled_ends_the_epoch(tmp_path: Path, replays: bool) -> None:
    """The engine no longer has the messages, or answers nobody: lost ones are counted, and nothing is claimed."""
    with (
        serving(tmp_path, replays=replays, buffer_steps=3) as server,
        collecting(tmp_path, replays=replays) as collector,
    ):
        connect(server, collector)
        for block in range(30):
            server.publish(encoded(stored(block)), is_sent=block not in range(10, 20))
        records = collect_until(collector, 20)
        lost = collector.view().stream.lost_messages
        view = device(collector)
    marks = [record for record in records if isinstance(record, EpochStart)]
    assert lost == 10
    assert (view.usable, view.resident_blocks, view.reason) == (False, None, "events were lost")
    assert [mark.cause for mark in marks] == [EpochCause.ATTACHED, EpochCause.LOST]
    blocks = [(run.epoch, run.block_ids[0]) for run in records if isinstance(run, StoredRun)]
    for (epoch, block), (next_epoch, next_block) in pairwise(blocks):
        assert (epoch == next_epoch) == (next_block == block + 1)


def test_a_replay_endpoint_that_is_dead_costs_one_wait(tmp_path: Path) -> None:
    """Nobody answers: gaps are counted as lost, and the collector does not wait at each of them."""
    with serving(tmp_path, replays=False) as server, collecting(tmp_path, replay_timeout_s=0.1) as collector:
        connect(server, collector)
        for block in range(40):
            server.publish(encoded(stored(block)), is_sent=block % 2 == 0)
        collect_until(collector, 20)
        stream = collector.view().stream
    assert stream.replay_failures == 1
    assert stream.lost_messages == 19


def test_an_engine_that_restarts_begins_anew(tmp_path: Path) -> None:
    """Another start publishes from zero: what was there is forgotten, and the new state is known and usable."""
    with collecting(tmp_path) as collector:
        with serving(tmp_path) as server:
            connect(server, collector)
            for block in range(10):
                server.publish(encoded(stored(block)))
            before = collect_until(collector, 10)
        wait_until(lambda: not collector.collect(0.0).ok)
        assert device(collector).reason == "the publisher went away"
        with serving(tmp_path) as server:
            connect(server, collector)
            assert device(collector).reason == "the engine restarted"  # known before it has published anything
            for block in range(20, 23):
                server.publish(encoded(stored(block)))
            after = collect_until(collector, 13)
            assert device(collector).resident_blocks == 3
            assert collector.view().stream.restarts == 1
    marks = [record for record in (*before, *after) if isinstance(record, EpochStart)]
    assert [(mark.epoch, mark.cause) for mark in marks] == [(0, EpochCause.ATTACHED), (1, EpochCause.RESTARTED)]


@pytest.mark.parametrize("replays", [True, False])
def test_a_restart_whose_numbers_seem_to_go_on_is_seen(tmp_path: Path, replays: bool) -> None:
    """The new engine's first message has the very number that was due: it is not taken for the old one's."""
    with collecting(tmp_path, replays=replays) as collector:
        with serving(tmp_path, replays=replays) as server:
            connect(server, collector)
            for block in range(10):
                server.publish(encoded(stored(block)))
            collect_until(collector, 10)
        wait_until(lambda: not collector.collect(0.0).ok)
        with serving(tmp_path, replays=replays) as server:
            for block in range(50, 60):  # before anybody listens again
                server.publish(encoded(stored(block)), is_sent=False)
            connect(server, collector)
            server.publish(encoded(stored(60)))
            collect_until(collector, 11)
            view = device(collector)
    assert view.resident_blocks == (11 if replays else None)


def test_a_publisher_that_only_went_away_for_a_moment_goes_on(tmp_path: Path) -> None:
    """The same stream after a broken connection: the replay proves it, and the epoch goes on."""
    with collecting(tmp_path) as collector:
        with serving(tmp_path) as server:
            connect(server, collector)
            for block in range(10):
                server.publish(encoded(stored(block)))
            collect_until(collector, 10)
            kept = list(server.kept)
        wait_until(lambda: not collector.collect(0.0).ok)
        with serving(tmp_path, first=10) as server:
            server.kept.extend(kept)
            connect(server, collector)
            server.publish(encoded(stored(10)))
            records = collect_until(collector, 11)
            assert device(collector).resident_blocks == 11
    assert not [record for record in records if isinstance(record, EpochStart)]


def test_garbage_on_the_socket_is_counted_and_nothing_is_claimed(tmp_path: Path) -> None:
    """Frames of every wrong kind end the epoch; good messages after a clear are believed again."""
    with serving(tmp_path, replays=False) as server, collecting(tmp_path, replays=False) as collector:
        connect(server, collector)
        server.publish(encoded(stored(1)))
        for frames in (
            (b"x",),
            (b"kv", b"123", b"x"),
            (b"kv", number(-1), b""),
            (b"kv", number(1), encoded(stored(2))[:-5]),
        ):
            server.send(*frames)
        collect_until(collector, 5)
        assert collector.view().stream.malformed_messages == 4
        assert not device(collector).usable
        server.sequence = 2
        server.publish(encoded(CLEARED, stored(7), removed(7)))
        collect_until(collector, 6)
        assert device(collector).resident_blocks == 0


def test_long_sequences_are_followed_by_their_stream(tmp_path: Path) -> None:
    """Of 24 bytes the sixteen that name the stream tell a restart, even where the number goes on."""
    with serving(tmp_path, replays=False) as server, collecting(tmp_path, replays=False) as collector:
        connect(server, collector)
        for sequence, name in ((0, b"\x88" * 16), (1, b"\x88" * 16), (2, b"\x99" * 16)):
            server.send(b"kv", name + number(sequence), encoded(stored(sequence)))
        records = collect_until(collector, 3)
        assert collector.view().stream.restarts == 1
        assert not device(collector).usable
    assert len([record for record in records if isinstance(record, EpochStart)]) == 2


def test_other_topics_are_not_met(tmp_path: Path) -> None:
    """A collector of one topic gets its messages only."""
    with serving(tmp_path, replays=False) as server, collecting(tmp_path, replays=False, topic="mine") as collector:
        connect(server, collector)
        server.send(b"other", number(0), encoded(stored(1)))
        server.send(b"mine", number(0), encoded(stored(2)))
        collect_until(collector, 1)
        assert collector.view().stream.messages == 1


def test_another_model_begins_an_epoch(tmp_path: Path) -> None:
    """The first facts are taken; facts that differ from them end the epoch, equal ones do not."""
    with serving(tmp_path) as server, collecting(tmp_path) as collector:
        connect(server, collector)
        for block, model in enumerate(("tiny", "tiny", "large")):
            collector.set_facts(StreamFacts("vllm", model, 16, 0))
            server.publish(encoded(stored(block)))
            records = collect_until(collector, block + 1)
        assert [record.cause for record in records if isinstance(record, EpochStart)] == [EpochCause.CHANGED]
        assert not device(collector).usable


def test_what_was_not_known_before_begins_no_epoch(tmp_path: Path) -> None:
    """Facts that are filled in, or another way to write the version, leave everything as it was."""
    with serving(tmp_path) as server, collecting(tmp_path) as collector:
        connect(server, collector)
        server.publish(encoded(stored(1)))
        collect_until(collector, 1)
        for facts in (StreamFacts("vllm 0.32.0", "tiny", 0, 0), StreamFacts("", "tiny", 16, 2048)):
            collector.set_facts(facts)
        server.publish(encoded(stored(2)))
        assert not [record for record in collect_until(collector, 2) if isinstance(record, EpochStart)]
        assert device(collector).resident_blocks == 2


def test_a_restart_that_brings_another_model_keeps_what_came_after_it(tmp_path: Path) -> None:
    """The stream shows the restart before the page shows the model: tiers stay known, and the records are cut once."""
    with serving(tmp_path, replays=False) as server, collecting(tmp_path, replays=False) as collector:
        connect(server, collector)
        server.send(b"kv", number(0), encoded(stored(1)))
        collect_until(collector, 1)
        collector.set_facts(StreamFacts("vllm", "tiny", 16, 0))
        server.send(b"kv", number(0), encoded(stored(7)))
        collect_until(collector, 2)
        collector.set_facts(StreamFacts("vllm", "large", 16, 0))
        assert device(collector).resident_blocks == 1
        server.send(b"kv", number(1), encoded(stored(8)))
        records = collect_until(collector, 3)
        assert [record.facts.model for record in records if isinstance(record, EpochStart)] == ["large"]
        assert device(collector).resident_blocks == 2


def test_capacities_are_taken_from_what_the_page_tells(tmp_path: Path) -> None:
    """A tier that is full as the page has it is known at once, and its blocks are a reading of the next turn."""
    with serving(tmp_path, replays=False, first=50) as server, collecting(tmp_path, replays=False) as collector:
        connect(server, collector)
        server.publish(encoded(stored(1)))
        server.publish(encoded(stored(2)))
        collect_until(collector, 2)
        assert not collector.collect(0.0).snapshot.readings
        collector.inform(EngineTold(capacity_blocks={Tier.DEVICE: 2}))
        assert collector.collect(5.0).snapshot.value(Signal.DEVICE_RESIDENT_BLOCKS) == 2.0
        collector.inform(EngineTold())
        assert device(collector).resident_blocks == 2


def test_its_own_thread_takes_what_comes(tmp_path: Path) -> None:
    """Between two turns of the loop the queue is emptied, and nothing is missed."""
    with serving(tmp_path) as server, collecting(tmp_path, interval_s=0.01, quiet_s=0.1) as collector:
        connect(server, collector)
        for block in range(2_000):
            server.publish(encoded(stored(block)))
        wait_until(lambda: bool(device(collector).resident_blocks == 2_000))
        assert collector.view().stream.lost_messages == 0


def test_messages_lost_at_the_very_end_are_fetched(tmp_path: Path) -> None:
    """No later message shows that they are missing: after a while without any, the engine is asked."""
    with serving(tmp_path) as server, collecting(tmp_path, quiet_s=0.05) as collector:
        connect(server, collector)
        for block in range(10):
            server.publish(encoded(stored(block)), is_sent=block < 5)
        wait_until(lambda: collector.collect(0.0).ok and device(collector).resident_blocks == 10)
        replays = collector.view().stream.replays
        for _ in range(20):
            collector.collect(0.0)
        assert collector.view().stream.replays == replays


def test_another_stream_that_stays_silent_is_found_out(tmp_path: Path) -> None:
    """What the engine keeps is not what was applied last: after a while without messages nothing is claimed."""
    with serving(tmp_path) as server, collecting(tmp_path, quiet_s=0.05) as collector:
        connect(server, collector)
        server.publish(encoded(stored(1)))
        collect_until(collector, 1)
        server.kept[-1] = (0, encoded(stored(2)))
        wait_until(lambda: bool(collector.collect(0.0).ok and collector.view().stream.restarts == 1))
        assert not device(collector).usable


def test_nobody_there_is_said_and_costs_nothing(tmp_path: Path) -> None:
    """Without a publisher a turn fails with one line and without a wait."""
    with collecting(tmp_path) as collector:
        turn = collector.collect(0.0)
        assert not turn.ok
        assert "nobody publishes" in (turn.error or "")


def test_an_address_that_is_none_is_refused() -> None:
    """What ZMQ cannot connect to is an error with a remedy."""
    from autotune_collectors.kv_events.collector import EventSource, KvEventsCollector

    with pytest.raises(AutotuneError, match="tcp://HOST:PORT"):
        KvEventsCollector(EventSource("nonsense"))


def test_an_address_to_bind_is_one_to_connect_to() -> None:
    """What an engine binds stands for loopback; other addresses stay."""
    from autotune_collectors.subscription import reachable

    assert reachable("tcp://*:5557") == "tcp://127.0.0.1:5557"
    assert reachable("tcp://0.0.0.0:1", "10.0.0.2") == "tcp://10.0.0.2:1"
    assert reachable("tcp://10.1.1.1:5557") == "tcp://10.1.1.1:5557"
