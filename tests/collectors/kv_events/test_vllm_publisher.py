"""vLLM's own publisher, in its own environment: what it sends, loses and replays is followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from event_samples import wait_until

from autotune.core.telemetry.events import StoredRun
from autotune.core.types import Tier

pytestmark = pytest.mark.engine("vllm")


@contextmanager
def publishing(endpoint: str, replay: str | None, **options: Any) -> Iterator[Any]:
    """A publisher as the scheduler makes one."""
    from vllm.distributed.kv_events import ZmqEventPublisher

    publisher = ZmqEventPublisher(0, endpoint, replay, **options)
    try:
        yield publisher
    finally:
        publisher.shutdown()


@contextmanager
def collecting(endpoint: str, replay: str | None, **options: Any) -> Iterator[Any]:
    """A collector without a thread of its own."""
    from autotune_collectors.kv_events.collector import EventSource, KvEventsCollector

    collector = KvEventsCollector(EventSource(endpoint, replay, interval_s=0.0, **options))
    try:
        yield collector
    finally:
        collector.close()


def batch(*blocks: int, removed: tuple[int, ...] = (), medium: str = "GPU") -> Any:
    """A step's events, in vLLM's classes."""
    from vllm.distributed.kv_events import BlockRemoved, BlockStored, KVEventBatch

    events: list[Any] = [
        BlockStored(
            block_hashes=[block], parent_block_hash=None, token_ids=list(range(32)), block_size=32, lora_id=None,
            medium=medium, lora_name=None,
        )
        for block in blocks
    ]  # fmt: skip
    events += [BlockRemoved(block_hashes=[block], medium=medium) for block in removed]
    return KVEventBatch(1.7e9, events)


def resident(collector: Any) -> int | None:
    """Blocks on the device, after another turn."""
    collector.collect(0.0)
    found: int | None = collector.view().tiers[Tier.DEVICE].resident_blocks
    return found


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_what_it_publishes_is_followed(tmp_path: Path, transport: str) -> None:
    """Stores and removals, from before the collector came and after; bytes and numbers alike."""
    ends = ("tcp://*:18201", "tcp://*:18202") if transport == "tcp" else (f"ipc://{tmp_path}/a", f"ipc://{tmp_path}/b")
    # A replay socket is always bound with the address as it is; ZMQ takes '*' there too.
    with publishing(*ends) as publisher:
        for block in range(30):
            publisher.publish(batch(block))
        with collecting(*ends) as collector:
            wait_until(lambda: resident(collector) == 30)
            publisher.publish(batch(100, 101, removed=(0, 1, 2)))
            wait_until(lambda: resident(collector) == 29)
            stream = collector.view().stream
            assert (stream.lost_messages, stream.malformed_messages) == (0, 0)


def test_a_full_queue_of_the_socket_is_made_up_for(tmp_path: Path) -> None:
    """More messages than may wait: the replay brings what ZMQ dropped, and every run is handed on once."""
    ends = (f"ipc://{tmp_path}/a", f"ipc://{tmp_path}/b")
    with publishing(*ends, hwm=10) as publisher, collecting(*ends, max_waiting=10, quiet_s=0.1) as collector:
        publisher.publish(batch(0))
        wait_until(lambda: resident(collector) == 1)
        collector.collect(0.0)
        for block in range(1, 3_000):
            publisher.publish(batch(block))
        records: list[Any] = []

        def whole() -> bool:
            records.extend(collector.collect(0.0).records)
            return bool(collector.view().tiers[Tier.DEVICE].resident_blocks == 3_000)

        wait_until(whole)
        stream = collector.view().stream
        blocks = [record.block_ids[0] for record in records if isinstance(record, StoredRun)]
    assert stream.lost_messages == 0
    assert stream.replayed_messages > 0
    assert blocks == sorted(set(blocks))


def test_a_buffer_that_is_too_short_ends_the_epoch(tmp_path: Path) -> None:
    """What the publisher no longer keeps is lost, said, and nothing is claimed."""
    ends = (f"ipc://{tmp_path}/a", f"ipc://{tmp_path}/b")
    with publishing(*ends, buffer_steps=5) as publisher:
        for block in range(50):
            publisher.publish(batch(block))
        with collecting(*ends) as collector:
            wait_until(lambda: collector.collect(0.0).ok and collector.view().stream.replayed_messages == 5)
            view = collector.view().tiers[Tier.DEVICE]
            assert (view.usable, view.resident_blocks, view.stored_blocks) == (False, None, 5)
