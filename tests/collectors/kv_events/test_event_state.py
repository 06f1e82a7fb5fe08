"""What lies where is known exactly, or said not to be known."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from event_samples import CLEARED, block_sets, encoded, recorded, removed, stored

from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.types import Tier

pytestmark = pytest.mark.engine("msgspec", "zmq")
FACTS = StreamFacts("vllm 0.32.0", "tiny", 16, 1024)


def new_feed(**bounds: int) -> Any:
    """A feed of an engine that has just started."""
    from autotune_collectors.kv_events.feed import EventFeed

    feed = EventFeed(FACTS, **{"max_blocks": 1_000, "max_gone": 100, "max_runs": 100} | bounds)
    feed.begin(EpochCause.ATTACHED, "")
    return feed


def give(feed: Any, *events: Any, time_s: float = 1.7e9) -> Any:
    """One message to a feed."""
    from autotune_collectors.kv_events.wire import EventDecoder

    feed.apply(EventDecoder().decode(encoded(*events, time_s=time_s)))
    return feed


def test_a_recorded_stream_ends_with_the_blocks_that_a_plain_count_finds() -> None:
    """Device and host after a real engine's events equal a set that is kept by hand."""
    payloads = [message[-1] for message in recorded("tiering")]
    feed = new_feed()
    from autotune_collectors.kv_events.wire import EventDecoder

    for payload in payloads:
        feed.apply(EventDecoder().decode(payload))
    expected = block_sets(payloads)
    for tier, medium in ((Tier.DEVICE, "GPU"), (Tier.HOST, "CPU")):
        view = feed.tiers[tier].view()
        assert view.usable
        assert view.resident_blocks == len(expected[medium]) > 0
    disk = feed.tiers[Tier.DISK].view()
    assert not disk.usable
    assert disk.stored_blocks == 55


@pytest.mark.parametrize("seed", range(5))
def test_random_events_agree_with_a_plain_count(seed: int) -> None:
    """Whatever is stored and removed in whatever groups, the counts are those of plain sets."""
    draw = random.Random(seed)
    feed, payloads = new_feed(), []
    resident: set[tuple[int, int]] = set()
    for _ in range(300):
        group = draw.choice([0, 0, 1])
        if resident and draw.random() < 0.5:
            block = draw.choice(sorted(resident))
            resident.discard(block)
            event = removed(block[0], group_idx=block[1])
        else:
            new = [n for n in {draw.randrange(2**64) for _ in range(3)} if (n, group) not in resident]
            resident |= {(n, group) for n in new}
            event = stored(*new, group_idx=group)
        payloads.append(encoded(event))
        give(feed, event)
    assert feed.tiers[Tier.DEVICE].view().resident_blocks == len(block_sets(payloads)["GPU"]) == len(resident)


def test_two_copies_of_a_block_are_two_until_both_are_gone() -> None:
    """An engine may hold a block twice: it is resident until it was removed as often as it was stored."""
    feed = give(new_feed(), stored(1), stored(1), removed(1))
    assert feed.tiers[Tier.DEVICE].view().resident_blocks == 1
    give(feed, removed(1))
    assert feed.tiers[Tier.DEVICE].view().resident_blocks == 0


def test_a_contradiction_makes_a_tier_unusable() -> None:
    """A block that goes without having come, or more blocks than there is room for: the count is not believed."""
    view = give(new_feed(), removed(9)).tiers[Tier.DEVICE].view()
    assert (view.usable, view.resident_blocks) == (False, None)
    feed = new_feed()
    feed.tiers[Tier.DEVICE].capacity_blocks = 2
    assert not give(feed, stored(1, 2, 3)).tiers[Tier.DEVICE].view().usable


def test_unknown_kinds_and_senseless_events_make_tiers_unusable() -> None:
    """What is not understood may have changed anything, so nothing is claimed; each is counted."""
    feed = give(new_feed(), stored(1), {"type": "BlockMoved"})
    assert feed.counts.unknown_events == 1
    assert not feed.tiers[Tier.DEVICE].view().usable
    assert "BlockMoved" in feed.tiers[Tier.DEVICE].view().reason
    feed = give(new_feed(), stored(1.5), stored(2))
    assert feed.counts.malformed_events == 1
    assert not feed.tiers[Tier.DEVICE].view().usable


def test_unknown_media_are_counted_and_touch_no_tier() -> None:
    """A medium without a tier changes neither device nor host."""
    feed = give(new_feed(), stored(1, medium="<medium>"), stored(2, medium=["x"]), stored(3, medium="EXTERNAL"))
    assert feed.counts.unknown_media == 3
    assert [feed.tiers[tier].view().stored_blocks for tier in Tier] == [0, 0, 0]
    assert feed.tiers[Tier.DEVICE].view().usable


@pytest.mark.parametrize(
    ("medium", "tier"),
    [(None, Tier.DEVICE), ("GPU", Tier.DEVICE), ("device(type='cuda', index=0)", Tier.DEVICE), ("CPU", Tier.HOST),
     ("CPU_PINNED", Tier.HOST), ("CPU_TIER1", Tier.HOST), ("DISK", Tier.DISK), ("STORAGE", Tier.DISK),
     ("EXTERNAL", None), ("<medium>", None)],
)  # fmt: skip
def test_media_of_all_engines_have_their_tier(medium: str | None, tier: Tier | None) -> None:
    """Names of vLLM, SGLang and LMCache."""
    from autotune_collectors.kv_events.residency import tier_of

    assert tier_of(medium) is tier


def test_a_tier_is_usable_again_once_it_is_known_to_be_full() -> None:
    """After a loss, blocks that are known count up to the capacity; then all are known."""
    feed = give(new_feed(), stored(1, 2))
    feed.begin(EpochCause.LOST, "events were lost")
    device = feed.tiers[Tier.DEVICE]
    device.capacity_blocks = 3
    for block in (4, 5):
        assert give(feed, stored(block)).tiers[Tier.DEVICE].view().resident_blocks is None
    give(feed, removed(77))
    assert give(feed, stored(6)).tiers[Tier.DEVICE].view().resident_blocks == 3


def test_a_clear_makes_the_device_known_and_the_host_doubtful() -> None:
    """The event says nothing of the host, so what was there is no longer claimed; a new epoch begins."""
    feed = give(new_feed(), stored(1, 2), stored(1, medium="CPU"))
    feed.begin(EpochCause.LOST, "events were lost")
    give(feed, stored(3, medium="CPU"), CLEARED, stored(5))
    assert feed.tiers[Tier.DEVICE].view().resident_blocks == 1
    assert not feed.tiers[Tier.HOST].view().usable
    marks = [record for record in feed.take() if isinstance(record, EpochStart)]
    assert [(mark.epoch, mark.cause) for mark in marks] == [(0, EpochCause.ATTACHED), (2, EpochCause.RESET)]


def test_memory_is_bounded() -> None:
    """Neither blocks, nor removed ones, nor waiting runs grow beyond their bounds, and each excess is said."""
    feed = new_feed(max_blocks=50, max_gone=20, max_runs=10)
    for first in range(0, 400, 4):
        give(
            feed, stored(*range(first, first + 4)), removed(*range(first, first + 2)), stored(1, medium=f"odd {first}")
        )
    device = feed.tiers[Tier.DEVICE]
    assert len(device.counts) <= 50
    assert len(device.gone) + len(device.gone_before) <= 40 + 2
    assert "more than 50" in device.view().reason
    assert feed.counts.dropped_runs > 0
    assert len(feed.take()) <= 11


def test_what_was_dropped_ends_an_epoch() -> None:
    """Runs beyond the bound are dropped to the end of the turn, and those of the next turn are of another epoch."""
    feed = new_feed(max_runs=3)
    give(feed, *[stored(block) for block in range(9)])
    first = feed.take()
    assert [type(record).__name__ for record in first] == ["EpochStart", "StoredRun", "StoredRun"]
    give(feed, stored(99))
    mark, run = feed.take()
    assert (mark.epoch, mark.cause) == (1, EpochCause.LOST)
    assert run.epoch == 1


def test_runs_say_what_was_stored_on_the_device() -> None:
    """Numbers, parent and tokens of a run; the host's copies, other groups and placeholders are no runs with tokens."""
    feed = give(
        new_feed(),
        stored(-1, 2, parent=7),
        stored(3, medium="CPU"),
        stored(4, group_idx=1),
        stored(5, block_size=0, token_ids=[]),
        time_s=1.7e9,
    )
    mark, first, second = give(feed, time_s=1.7e9 + 2).take()
    assert mark == EpochStart(0, EpochCause.ATTACHED, "", "2023-11-14T22:13:20.000Z", FACTS)
    assert first == (0.0, 0, (2**64 - 1, 2), 7, 32)
    assert second == (0.0, 0, (5,), None, 0)


def test_blocks_that_come_back_are_counted_by_the_time_they_were_away() -> None:
    """A block stored again after its removal counts once, in the bin of its absence."""
    feed = new_feed()
    for time_s, event in ((0, stored(1)), (10, removed(1)), (14, stored(1)), (15, stored(2)), (15, removed(2))):
        give(feed, event, time_s=1.7e9 + time_s)
    view = feed.tiers[Tier.DEVICE].view()
    assert view.restored_blocks == 1
    assert view.gap_counts[8] == 1  # from 2**(8 - 6) = 4 seconds on
    assert sum(view.gap_counts) == 1


def test_times_that_make_no_sense_never_go_back() -> None:
    """A batch without a sensible time counts as of the time of the one before."""
    feed = new_feed()
    for time_s in (100.0, 50.0, float("nan"), -1.0, 1e300, 120.0):
        give(feed, stored(int(time_s) if 0 < time_s < 1e9 else 3), time_s=time_s)
    times = [record.time_s for record in feed.take() if not isinstance(record, EpochStart)]
    assert times == sorted(times)
    assert times[-1] == 20.0


def test_tokens_are_never_made_into_objects() -> None:
    """A decoded event holds hashes and figures only: nothing of a prompt is in it."""
    from autotune_collectors.kv_events.wire import EventDecoder

    (event,) = EventDecoder().decode(encoded(stored(1))).events
    assert "token_ids" not in {field.name for field in msgspec.structs.fields(event)}


def test_the_size_of_blocks_is_taken_from_the_first_event_where_nobody_said_it() -> None:
    """The mark of an epoch says how many tokens a block has."""
    feed = new_feed()
    feed.facts = StreamFacts("", "", 0, 0)
    mark = give(feed, stored(1)).take()[0]
    assert mark.facts == StreamFacts("", "", 16, 0)
