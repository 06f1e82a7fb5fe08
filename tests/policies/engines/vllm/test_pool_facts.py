from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune_policies.engines.vllm.facts import GroupFacts, PoolFacts, bytes_per_token

# Llama 3.1 8B in bfloat16: 32 layers, 8 KV heads of 128, keys and values, 2 bytes.
LLAMA_BYTES = 32 * 8 * 128 * 2 * 2
BLOCK_TOKENS = 16


@pytest.mark.parametrize(("heads_split", "layers_split"), [(1, 1), (2, 1), (8, 1), (1, 4), (2, 2), (4, 4)])
def test_ranks_with_different_parts_add_up(heads_split: int, layers_split: int) -> None:
    """Tensor parallelism splits the heads, pipeline parallelism the layers; the whole stays the model's."""
    n_ranks = heads_split * layers_split
    rank_block_bytes = LLAMA_BYTES // n_ranks * BLOCK_TOKENS
    assert bytes_per_token(rank_block_bytes, [BLOCK_TOKENS], 1) == LLAMA_BYTES // n_ranks
    assert bytes_per_token(rank_block_bytes, [BLOCK_TOKENS], n_ranks) == LLAMA_BYTES


def test_context_parallelism_counts_each_token_once() -> None:
    """Four ranks that hold every fourth token: a block covers four times the tokens and is as large on each rank."""
    rank_block_bytes = LLAMA_BYTES * BLOCK_TOKENS
    assert bytes_per_token(rank_block_bytes, [4 * BLOCK_TOKENS], 4) == LLAMA_BYTES


def test_heads_that_several_ranks_hold_count_for_each() -> None:
    """Sixteen ranks for eight heads store every head twice, and that is what the pool has to hold."""
    rank_block_bytes = LLAMA_BYTES // 8 * BLOCK_TOKENS
    assert bytes_per_token(rank_block_bytes, [BLOCK_TOKENS], 16) == 2 * LLAMA_BYTES


def test_one_copy_for_all_ranks() -> None:
    """A latent cache that all ranks share and the pool keeps once counts once, however many ranks there are."""
    latent_bytes = 61 * 576 * 2
    assert bytes_per_token(latent_bytes * 64, [64], 1) == latent_bytes


@given(st.lists(st.sampled_from([16, 32, 64]), min_size=1, max_size=4), st.integers(1, 64), st.integers(1, 16))
def test_groups_add_up(block_tokens: list[int], kib: int, n_copies: int) -> None:
    """A token takes its share of one block in every group."""
    block_bytes = kib * 1024
    expected = sum(block_bytes // tokens for tokens in block_tokens) * n_copies
    assert bytes_per_token(block_bytes, block_tokens, n_copies) == expected


@pytest.mark.parametrize(("block_tokens", "n_copies"), [([], 1), ([0], 1), ([16], 0)])
def test_no_tokens_or_no_ranks_are_refused(block_tokens: list[int], n_copies: int) -> None:
    """There is no such engine."""
    with pytest.raises(ConfigError, match="tokens and a rank"):
        bytes_per_token(1024, block_tokens, n_copies)


def test_full_attention_is_known_for_all_groups_or_not_at_all() -> None:
    """As long as one group is unknown, none is named."""

    def facts(*kinds: bool | None) -> PoolFacts:
        groups = tuple(GroupFacts(number, 16, kind) for number, kind in enumerate(kinds))
        return PoolFacts("m", "0.32.0", 10, 1024, groups, 64, 64)

    assert facts(True).full_attention_groups == frozenset({0})
    assert facts(False, True).full_attention_groups == frozenset({1})
    assert facts(None, True).full_attention_groups is None


@pytest.mark.parametrize(("n_groups", "chunk_bytes", "copied"), [(1, 4096, 1600), (1, 0, 1600), (2, 800, 800)])
def test_padding_is_not_copied(n_groups: int, chunk_bytes: int, copied: int) -> None:
    """One group's chunk holds all of its tokens' bytes, one of several its share, and the engine may not tell."""
    groups = tuple(GroupFacts(number, BLOCK_TOKENS, full_attention=True) for number in range(n_groups))
    assert PoolFacts("m", "0.32.0", 1, chunk_bytes, groups, 100, 100).copied_bytes == copied
