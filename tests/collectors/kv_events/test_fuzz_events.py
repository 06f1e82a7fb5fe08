"""Arbitrary frames: events, or an error of this project; never another one, never a claim that cannot be kept."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from event_samples import CLEARED, encoded, number, recorded, removed, stored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.core.clock import SystemClock
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import Tier

pytestmark = pytest.mark.engine("msgspec", "zmq")
SHORT = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
REAL = [message[-1] for name in ("live", "tiering", "replay") for message in recorded(name)]
FORMS = [
    *REAL[:6],
    encoded(stored(-1, parent=0, group_idx=3), removed(b"\1\2"), CLEARED),
    encoded(["BlockStored", [1, "x"], None, [1], 16, None, "CPU"], ["AllBlocksCleared"], ["BlockRemoved", [1]]),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=40)
    | st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "GPU", "CPU", "type", "block_hashes"])
)
NAMES = st.sampled_from(["type", "block_hashes", "medium", "group_idx", "block_size", "parent_block_hash", "token_ids"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
EVENTS = st.dictionaries(NAMES, VALUES, max_size=6) | st.lists(VALUES, max_size=7)
BATCHES = st.lists(VALUES, max_size=4) | st.tuples(VALUES, st.lists(EVENTS, max_size=4), VALUES)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real payload with bytes changed, cut out, put in, or its end missing."""
    content = bytearray(draw(st.sampled_from(FORMS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        piece = draw(st.binary(max_size=6))
        content[place : place + draw(st.sampled_from([0, 1, len(piece), 40]))] = piece
    return bytes(content[: draw(st.integers(0, len(content))) if draw(st.booleans()) else len(content)])


PAYLOADS = st.binary(max_size=200) | damaged() | BATCHES.map(msgspec.msgpack.encode) | st.sampled_from(FORMS)
LONG_NUMBERS = st.integers(0, 5).map(lambda n: b"\x88" * 16 + number(n))
NUMBERS = st.integers(0, 12).map(number) | st.binary(max_size=26) | LONG_NUMBERS
MESSAGES = st.tuples(NUMBERS, PAYLOADS).map(lambda pair: [b"kv", *pair]) | st.lists(st.binary(max_size=30), max_size=4)


class NoReplays:
    """A source without a replay endpoint."""

    replay_endpoint: str | None = None
    replay_timeout_s: float = 0.0


def follow(messages: list[list[bytes]]) -> Any:
    """Bring messages to a feed as a collector does; its state at the end must be one that can be true."""
    from autotune_collectors.kv_events.feed import EventFeed
    from autotune_collectors.kv_events.stream import EventStream

    feed = EventFeed(StreamFacts("", "", 0, 0), max_blocks=64, max_gone=16, max_runs=16)
    stream = EventStream(feed, None, NoReplays(), SystemClock())
    for message in messages:
        stream.take(message)
    assert stream.counts.messages == len(messages)
    for tier in Tier:
        view = feed.tiers[tier].view()
        assert view.usable == (view.resident_blocks is not None) == (not view.reason)
        assert (view.resident_blocks or 0) >= 0
        assert len(feed.tiers[tier].counts) <= 64
    assert len(feed.take()) <= 17
    return feed


def decode(payload: bytes) -> None:
    """A batch, or the error that a decoder may raise."""
    from autotune_collectors.kv_events.wire import EventDecoder, EventError

    try:
        batch = EventDecoder().decode(payload)
    except EventError as error:
        assert str(error)
        return
    assert isinstance(batch.time_s, float)


def damage(seed: int, count: int) -> None:
    """Real payloads with bytes changed, cut out and put in, many in little time."""
    draw = random.Random(seed)
    feed = follow([])
    from autotune_collectors.kv_events.wire import EventDecoder, EventError

    decoder, refused = EventDecoder(), 0
    for _ in range(count):
        content = bytearray(draw.choice(FORMS))
        for _ in range(draw.randrange(1, 5)):
            place = draw.randrange(len(content) + 1)
            content[place : place + draw.choice([0, 1, 3, 40])] = draw.randbytes(draw.randrange(4))
        try:
            feed.apply(decoder.decode(bytes(content[: draw.choice([len(content), draw.randrange(len(content) + 1)])])))
        except EventError:
            refused += 1
    assert 0 < refused < count


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_damaged_payloads(seed: int) -> None:
    """A decoder and a feed that live on meet one damaged payload after the other."""
    damage(seed, 10_000)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3, 8))
def test_a_hundred_thousand_damaged_payloads(seed: int) -> None:
    """The same for longer."""
    damage(seed, 100_000)


@given(PAYLOADS)
@SHORT
def test_any_payload(payload: bytes) -> None:
    """Random bytes, damaged real payloads, and MessagePack of any shape."""
    decode(payload)


@given(st.lists(MESSAGES, max_size=8))
@SHORT
def test_any_messages(messages: list[list[bytes]]) -> None:
    """Messages of any frames in any order."""
    follow(messages)


@pytest.mark.fuzz
@given(PAYLOADS)
def test_any_payload_for_long(payload: bytes) -> None:
    """The same for longer."""
    decode(payload)


@pytest.mark.fuzz
@given(st.lists(MESSAGES, max_size=8))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_messages_for_long(messages: list[list[bytes]]) -> None:
    """The same for longer."""
    follow(messages)
