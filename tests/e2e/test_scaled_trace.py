"""The cut that simulator and server both replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scaled_trace import (
    BLOCK_TOKENS,
    CutSettings,
    conversations,
    cut,
    kept_requests,
    prompt_tokens,
    read_mooncake,
    write_mooncake,
)

from autotune.core.trace import Trace

VOCABULARY = 512


@pytest.fixture(scope="module")
def recorded() -> Trace:
    """The bundled trace."""
    return Trace.open("sample:conversation")


@pytest.fixture(scope="module")
def small(recorded: Trace) -> Trace:
    """Its usual cut."""
    return cut(recorded, CutSettings())


def paths(trace: Trace) -> list[tuple[int, ...]]:
    """The blocks of every request."""
    return [tuple(trace.blocks_of(request).tolist()) for request in range(trace.n_requests)]


def test_cut_keeps_the_prefix_tree(recorded: Trace, small: Trace) -> None:
    """Two requests of the cut share exactly as many first blocks as the two recorded ones did."""
    kept = kept_requests(recorded, CutSettings())
    before = np.concatenate([recorded.blocks_of(int(request)) for request in kept])
    assert (np.diff(recorded.block_offsets)[kept] == np.diff(small.block_offsets)).all()
    pairs = np.unique(np.stack([before, small.block_ids]), axis=1)
    assert pairs.shape[1] == len(np.unique(before)) == small.n_blocks  # each old id has one new one, and the reverse


def test_cut_keeps_order_and_gaps(recorded: Trace, small: Trace) -> None:
    """Requests come in the recorded order, and every gap is the recorded one over the speed-up."""
    kept = kept_requests(recorded, CutSettings())
    assert (np.diff(kept) > 0).all()
    assert np.allclose(np.diff(small.arrival_s), np.diff(recorded.arrival_s[kept]) / CutSettings().speed_up, atol=1e-6)
    assert small.arrival_s[0] == 0.0


def test_cut_keeps_whole_conversations(recorded: Trace) -> None:
    """A conversation is kept with all its requests or not at all, and none of them is longer than allowed."""
    kept = kept_requests(recorded, CutSettings(share_frac=0.2, longest_blocks=40))
    conversation, n_blocks = conversations(recorded), np.diff(recorded.block_offsets)
    left_out = np.setdiff1d(np.arange(recorded.n_requests), kept)
    assert not set(conversation[kept].tolist()) & set(conversation[left_out].tolist())
    assert n_blocks[kept].max() <= 40
    everything = kept_requests(recorded, CutSettings(share_frac=1.0, longest_blocks=40))
    left_out = np.setdiff1d(np.arange(recorded.n_requests), everything)
    assert set(conversation[left_out].tolist()) == set(conversation[n_blocks > 40].tolist())


def test_share_is_kept(recorded: Trace) -> None:
    """About the share that was asked for is kept, whichever seed draws, and other seeds draw others."""
    sizes = [
        cut(recorded, CutSettings(share_frac=0.3, longest_blocks=10**6, seed=seed)).n_requests for seed in range(5)
    ]
    assert all(0.2 < size / recorded.n_requests < 0.4 for size in sizes)
    assert len(set(sizes)) > 1


def test_lengths_are_those_of_the_blocks(small: Trace) -> None:
    """Every prompt fills its blocks of 32 tokens, the last one in part at most; every output has a token."""
    assert small.block_tokens == BLOCK_TOKENS
    assert (np.diff(small.block_offsets) == -(-small.input_tokens // BLOCK_TOKENS)).all()
    assert small.output_tokens.min() >= 1


def test_first_requests_are_a_prefix(recorded: Trace, small: Trace) -> None:
    """``requests`` keeps the start of the same cut."""
    short = cut(recorded, CutSettings(requests=50))
    assert short.n_requests == 50
    assert paths(short) == paths(small)[:50]


def test_cut_is_repeatable(recorded: Trace, small: Trace) -> None:
    """The same settings give the same cut."""
    again = cut(recorded, CutSettings())
    assert (again.block_ids == small.block_ids).all()
    assert (again.arrival_s == small.arrival_s).all()


def test_file_says_the_same(small: Trace, tmp_path: Path) -> None:
    """What is written in Mooncake's format reads back as the same requests."""
    write_mooncake(small, tmp_path / "cut.jsonl")
    read = read_mooncake(tmp_path / "cut.jsonl")
    assert paths(read) == paths(small)
    for column in ("input_tokens", "output_tokens"):
        assert (getattr(read, column) == getattr(small, column)).all()
    assert np.allclose(read.arrival_s, small.arrival_s, atol=1e-5)


def test_equal_prefixes_give_equal_tokens_and_no_others(small: Trace) -> None:
    """Over the whole cut, two full blocks have the same tokens exactly if they have the same id."""
    tokens_of: dict[int, tuple[int, ...]] = {}
    for block in np.unique(small.block_ids).tolist():
        tokens_of[block] = tuple(prompt_tokens(np.array([block], np.int32), BLOCK_TOKENS, VOCABULARY))
    assert len(set(tokens_of.values())) == len(tokens_of)


@given(
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
)
def test_prompts_share_what_their_blocks_share(one: list[int], other: list[int]) -> None:
    """Two prompts agree in the blocks that they share, and differ within the first four tokens after these."""
    first, second = (prompt_tokens(np.array(ids, np.int32), len(ids) * 32, VOCABULARY) for ids in (one, other))
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert first[: shared * 32] == second[: shared * 32]
    if shared < min(len(one), len(other)):
        assert first[shared * 32 : shared * 32 + 4] != second[shared * 32 : shared * 32 + 4]


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4), st.integers(1, 128))
def test_prompt_has_its_length_and_no_end(ids: list[int], length: int) -> None:
    """A prompt has the tokens asked for, all of the vocabulary, and never the last one, which ends a text."""
    length = min(length, len(ids) * 32)
    tokens = prompt_tokens(np.array(ids, np.int32), length, VOCABULARY)
    assert len(tokens) == length
    assert all(0 <= token < VOCABULARY - 1 for token in tokens)
