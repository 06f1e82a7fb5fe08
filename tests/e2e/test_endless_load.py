"""The endless load asks for what was recorded, round after round, of blocks that nobody has asked for."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from endless_load import NATURES, ROUND_S, Ask, Conversation, Nature, endless, recorded_conversations
from scaled_trace import CutSettings, cut

from autotune.core.trace import Trace

SYSTEM = 1


@pytest.fixture(scope="module")
def recorded() -> list[Conversation]:
    """Conversations of the bundled trace, as the demo cuts it."""
    settings = CutSettings(share_frac=1.0, longest_blocks=32, speed_up=1.0)
    return recorded_conversations(cut(Trace.open("sample:conversation"), settings))


def within(load: list[Ask], number: int) -> list[Ask]:
    """Requests of one round."""
    return [each for each in load if number * ROUND_S <= each.at_s < (number + 1) * ROUND_S]


def first_rounds(recorded: list[Conversation], nature: Nature, n: int) -> list[Ask]:
    """Requests of the first rounds."""
    return list(itertools.takewhile(lambda each: each.at_s < n * ROUND_S, endless(recorded, nature)))


@pytest.mark.parametrize("name", NATURES)
def test_every_round_asks_for_the_same_lengths(recorded: list[Conversation], name: str) -> None:
    """Rounds that are under way for long differ in nothing but the ids of their blocks."""
    load = first_rounds(recorded, NATURES[name], 8)
    seventh, eighth = within(load, 6), within(load, 7)
    assert len(seventh) > 40
    assert Counter(each.input_tokens for each in seventh) == Counter(each.input_tokens for each in eighth)


@pytest.mark.parametrize("name", NATURES)
def test_times_never_go_back(recorded: list[Conversation], name: str) -> None:
    """Requests come in order of their times, from the beginning on."""
    times = np.array([each.at_s for each in first_rounds(recorded, NATURES[name], 3)])
    assert times[0] >= 0.0
    assert (np.diff(times) >= 0.0).all()


def test_conversations_share_the_system_prompt_alone(recorded: list[Conversation]) -> None:
    """A block other than the first is asked for by one conversation, whose requests go on from each other."""
    load = first_rounds(recorded, NATURES["one question more"], 4)
    assert {each.block_ids[0] for each in load} == {SYSTEM}
    owner: dict[int, int] = {}
    for each in load:
        if len(each.block_ids) > 1:
            second = each.block_ids[1]
            assert all(owner.setdefault(block, second) == second for block in each.block_ids[1:])


def test_the_prefix_structure_is_the_recorded_one(recorded: list[Conversation]) -> None:
    """Two requests of a conversation share as many blocks as they did in the recording."""
    conversation = next(each for each in recorded if len(each) == 4)
    nature = Nature(turns=(4, 4), chats=1, strangers=0, hurry=1e6)
    load = within(first_rounds([conversation], nature, 1), 0)
    assert len(load) == 4
    for asked, was in zip(itertools.pairwise(load), itertools.pairwise(conversation), strict=True):
        assert shared(*asked) == shared(*was)


def shared(one: Ask, other: Ask) -> int:
    """Blocks at the beginning that both have."""
    pairs = zip(one.block_ids, other.block_ids, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
