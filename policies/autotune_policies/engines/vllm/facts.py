"""What the engine is and how its host pool is cut, read once from the spec that vLLM built.

**Bytes per rank and in total.** vLLM tells each rank the bytes of its own part of a block. Under tensor, pipeline and
context parallelism the ranks of one engine hold different parts, so the whole is the sum over ranks; where they hold
the same bytes and the pool keeps one copy (a latent cache that all ranks share), the whole is one rank's. Heads that
are held by several ranks count for each of them. Data-parallel engines are engines of their own, each with its own
pool, and count for nothing here. ``cpu_bytes_to_use`` is the pool of all ranks of one engine together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from autotune.core.errors import ConfigError
from autotune_policies.engines.vllm import compat


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group of layers whose KV is kept in blocks of its own.

    Attributes:
        group_id: Number of the group, as it stands in the keys of its chunks.
        chunk_tokens: Tokens that one chunk covers.
        full_attention: Whether a token needs every earlier one; ``None`` where the engine does not tell the spec.
    """

    group_id: int
    chunk_tokens: int
    full_attention: bool | None


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The engine and its host pool.

    Attributes:
        model: Model as the engine was told.
        engine_version: vLLM's version.
        n_chunks: Chunks that the pool holds.
        chunk_bytes: Bytes of one chunk over all ranks, with the padding to whole memory pages.
        groups: Groups of layers that are offloaded.
        rank_bytes_per_token: KV of one token on one rank, summed over the groups.
        kv_bytes_per_token: The same over all ranks of this engine.
        data_parallel_rank: Number of this engine among its data-parallel replicas.
    """

    model: str
    engine_version: str
    n_chunks: int
    chunk_bytes: int
    groups: tuple[GroupFacts, ...]
    rank_bytes_per_token: int
    kv_bytes_per_token: int
    data_parallel_rank: int = 0

    @property
    def copied_bytes(self) -> int:
        """Bytes of one chunk over all ranks, without padding where there is one group of layers."""
        unpadded = min(group.chunk_tokens for group in self.groups) * self.kv_bytes_per_token
        return min(self.chunk_bytes or unpadded, unpadded)

    @property
    def full_attention_groups(self) -> frozenset[int] | None:
        """Numbers of the groups with full attention; ``None`` where they are not all known."""
        if any(group.full_attention is None for group in self.groups):
            return None
        return frozenset(group.group_id for group in self.groups if group.full_attention)


def bytes_per_token(rank_block_bytes: int, block_tokens: Sequence[int], n_copies: int) -> int:
    """KV bytes of one token over all groups of layers and over ``n_copies`` ranks.

    Args:
        rank_block_bytes: Bytes of one block on one rank; the groups take blocks of the same size from one pool.
        block_tokens: Per group, the tokens that a block covers over all ranks, context parallelism included.
        n_copies: Ranks whose bytes differ; 1 where the pool keeps one copy for all.

    Raises:
        ConfigError: A block has no tokens, or there is no rank.
    """
    if n_copies < 1 or not block_tokens or min(block_tokens) < 1:
        raise ConfigError("a block has tokens and a rank", got=f"{list(block_tokens)} tokens on {n_copies} ranks")
    return int(sum(Fraction(rank_block_bytes * n_copies, tokens) for tokens in block_tokens))


def pool_facts(spec: Any) -> PoolFacts:
    """The facts of a ``CPUOffloadingSpec`` or one of its subclasses.

    Source: vLLM 0.28 to 0.33, v1/kv_offload/config.py (OffloadingConfig) and cpu/spec.py.
    """
    config = compat.offloading_config(spec)
    block_tokens = tuple(group.tokens_per_block for group in config.groups)
    rank_block_bytes = config.worker_kv_bytes_per_block
    n_copies = 1 if getattr(spec, "replicated_layout", False) else config.parallel.world_size
    return PoolFacts(
        model=config.model.name,
        engine_version=engine_version(),
        n_chunks=compat.pool_chunks(spec),
        chunk_bytes=compat.chunk_bytes(spec),
        groups=_groups(config, compat.blocks_per_chunk(spec)),
        rank_bytes_per_token=bytes_per_token(rank_block_bytes, block_tokens, 1),
        kv_bytes_per_token=bytes_per_token(rank_block_bytes, block_tokens, n_copies),
        data_parallel_rank=config.parallel.data_parallel_index,
    )


def engine_version() -> str:
    """Version of vLLM as its sources say it; its metadata may be those of another build."""
    from vllm.version import __version__

    return str(__version__)


def _groups(config: Any, blocks_per_chunk: int) -> tuple[GroupFacts, ...]:
    """A single group is taken for full attention; of several, only later versions tell the spec which are."""
    return tuple(
        GroupFacts(
            group_id=getattr(group, "group_id", index),
            chunk_tokens=group.tokens_per_block * blocks_per_chunk,
            full_attention=_full_attention(group, alone=len(config.groups) == 1),
        )
        for index, group in enumerate(config.groups)
    )


def _full_attention(group: Any, *, alone: bool) -> bool | None:
    if hasattr(group, "sliding_window_size_in_chunks"):  # vLLM 0.33; 0.24 hands over the layers themselves
        return group.sliding_window_size_in_chunks is None
    return True if alone else None
