"""Every engine's form of a KV event is understood; what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest
from event_samples import CLEARED, encoded, number, recorded, removed, stored

pytestmark = pytest.mark.engine("msgspec", "zmq")


def decoded(payload: bytes) -> Any:
    """A payload through a fresh decoder."""
    from autotune_collectors.kv_events.wire import EventDecoder

    return EventDecoder().decode(payload)


@pytest.mark.parametrize("name", ["live", "tiering", "replay"])
def test_recorded_messages_are_decoded_whole(name: str) -> None:
    """Each event of vLLM's own messages comes out, with all its hashes, and none is unknown."""
    import msgspec

    for *_, payload in recorded(name):
        batch = decoded(payload)
        expected = msgspec.msgpack.decode(payload)
        assert batch.time_s == expected[0]
        assert batch.unknown == ()
        assert [event.block_hashes for event in batch.events] == [event["block_hashes"] for event in expected[1]]
        assert [event.medium for event in batch.events] == [event["medium"] for event in expected[1]]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # vLLM with fields of 0.33 that are not needed here
        ([stored(5, session_id="a", lookahead_token_ids=[[1], [2]], group_idx=2)], [("stored", [5], "GPU", 2)]),
        # SGLang: defaults are left out, numbers are signed
        ([{"type": "BlockRemoved", "block_hashes": [-7]}], [("removed", [-7], None, None)]),
        ([stored(-7, medium="CPU_PINNED", cache_salt="x")], [("stored", [-7], "CPU_PINNED", None)]),
        # arrays of older versions, with and without a medium
        ([["BlockStored", [1, 2], None, [1, 2, 3], 16, None]], [("stored", [1, 2], None, None)]),
        ([["BlockRemoved", [1]], ["AllBlocksCleared"]], [("removed", [1], None, None), ("cleared",)]),
        # llm-d: text, no tokens, a size of zero
        ([["BlockStored", ["<h>"], 0, [], 0, None, "<medium>"]], [("stored", ["<h>"], "<medium>", None)]),
        # both forms in one message
        ([CLEARED, ["BlockStored", [b"\1"], None, [], 16, None]], [("cleared",), ("stored", [b"\1"], None, None)]),
    ],
)  # fmt: skip
def test_every_form_is_understood(events: list[Any], expected: list[tuple[Any, ...]]) -> None:
    """Kind, hashes, medium and group of each event, whatever form it has."""
    from autotune_collectors.kv_events.wire import REMOVED_TYPES, STORED_TYPES

    found: list[tuple[Any, ...]] = []
    for event in decoded(encoded(*events)).events:
        if isinstance(event, (*STORED_TYPES, *REMOVED_TYPES)):
            kind = "stored" if isinstance(event, STORED_TYPES) else "removed"
            found.append((kind, event.block_hashes, event.medium, event.group_idx))
        else:
            found.append(("cleared",))
    assert found == expected


def test_an_event_of_a_new_kind_is_named_and_the_others_stay() -> None:
    """A kind that is not known is told by its name; known ones of the same message come out."""
    batch = decoded(encoded(stored(1), {"type": "BlockMoved", "block_hashes": [1]}, removed(1)))
    assert len(batch.events) == 2
    assert batch.unknown == ("BlockMoved",)


def test_a_decoder_goes_from_one_form_to_the_other() -> None:
    """After arrays, maps are understood as before, and the other way round."""
    from autotune_collectors.kv_events.wire import EventDecoder

    decoder = EventDecoder()
    for _ in range(2):
        assert len(decoder.decode(encoded(["BlockRemoved", [1]], ["BlockRemoved", [2]])).events) == 2
        assert len(decoder.decode(encoded(stored(1))).events) == 1


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x90", b"\x93", encoded(stored(1))[:-30], b"\xdd\xff\xff\xff\xff", b"\x91" * 5_000,
     encoded(5), encoded("x"), b"\x92\xc0\xc0", b"\x81\xa1a\x01"],
)  # fmt: skip
def test_what_is_no_message_is_an_error(payload: bytes) -> None:
    """Truncated, foreign and absurd payloads are refused with a message."""
    from autotune_collectors.kv_events.wire import EventError

    with pytest.raises(EventError, match="KV events"):
        decoded(payload)


@pytest.mark.parametrize(
    ("block_hash", "expected"),
    [
        (5, 5),
        (2**64 - 1, 2**64 - 1),
        (-1, 2**64 - 1),
        (-484813614762822561, 2**64 - 484813614762822561),
        (bytes(range(32)), int.from_bytes(bytes(range(24, 32)), "big")),
        (b"\x01", 1),
        ("4284880390408332321", 4284880390408332321),
        ("int:4284880390408332321", 4284880390408332321),
    ],
)
def test_a_hash_is_a_number_of_64_bits(block_hash: object, expected: int) -> None:
    """Numbers are taken modulo 2**64, the last bytes count, and text of digits is its number."""
    from autotune_collectors.kv_events.wire import block_id

    assert block_id(block_hash) == expected


def test_other_text_is_hashed_and_nothing_else_is_a_hash() -> None:
    """Equal text gives equal numbers, other text others; floats and lists are refused."""
    from autotune_collectors.kv_events.wire import EventError, block_id

    assert block_id("<h>") == block_id("<h>") != block_id("<g>")
    assert 0 <= block_id("²") < 2**64
    for odd in (1.5, None, [1], True):
        with pytest.raises(EventError, match="hash"):
            block_id(odd)


def test_sequences_of_both_lengths() -> None:
    """Eight bytes are the number; of 24 the smaller side is, and the rest names the stream; -1 ends a replay."""
    from autotune_collectors.kv_events.wire import EventError, parse_sequence

    name = b"\x9c" * 16
    assert parse_sequence(number(300)) == (300, b"")
    assert parse_sequence(number(-1)) == (-1, b"")
    assert parse_sequence(number(300) + name) == (300, name)
    assert parse_sequence(name + number(300)) == (300, name)
    assert parse_sequence(name + number(-1))[0] == -1
    for odd in (b"", b"1234", b"0" * 16):
        with pytest.raises(EventError, match="8 or 24"):
            parse_sequence(odd)
