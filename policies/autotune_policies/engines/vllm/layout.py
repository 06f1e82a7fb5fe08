"""How the engine cuts its KV into blocks and chunks, read once from the connector's scheduler side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LayoutGroup:
    """One KV-cache group that is offloaded.

    Attributes:
        group_id: Number of the group in the engine and in the keys of its chunks.
        block_tokens: Tokens of a block.
        chunk_tokens: Tokens of a chunk.
        hashes_per_chunk: Block hashes that a chunk covers; the last one is its key.
        full_attention: Whether a token needs every earlier one.
        stores_singly: Whether an idle block can be stored by itself: attention layers of the model itself.
    """

    group_id: int
    block_tokens: int
    chunk_tokens: int
    hashes_per_chunk: int
    full_attention: bool
    stores_singly: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """All groups, in the connector's order.

    Attributes:
        groups: The groups.
        blocks_per_chunk: Blocks of a chunk.
        n_ranks: Ranks that take part in every copy.
        prompt_only: Whether generated tokens are not stored.
    """

    groups: tuple[LayoutGroup, ...]
    blocks_per_chunk: int
    n_ranks: int
    prompt_only: bool

    @classmethod
    def of(cls, config: Any) -> Layout:
        """Read a ``SchedulerOffloadConfig``.

        Source: vLLM 0.24, 0.28, 0.32 and 0.33, distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py; the
        names changed in 0.26.
        """
        return cls(
            groups=tuple(map(_group, config.kv_group_configs)),
            blocks_per_chunk=int(_either(config, "blocks_per_chunk", "block_size_factor")),
            n_ranks=int(config.num_workers),
            prompt_only=bool(config.offload_prompt_only),
        )

    def step_blocks(self, step_tokens: int, step_requests: int) -> int:
        """Blocks that one step takes from the device's free queue at most, about: full ones, and one per request.

        Args:
            step_tokens: Most tokens that a step computes.
            step_requests: Most requests in a step.
        """
        return sum(step_tokens // group.block_tokens + step_requests for group in self.groups)


def cached_key(block: Any, end_tokens: int) -> bytes | None:
    """Offload key of a block's content, if it is a whole cached block that ends here.

    Source: vLLM 0.24 to 0.33: ``BlockHashWithGroupId`` and ``OffloadKey`` are both the hash and 4 bytes of the group.
    """
    key: bytes | None = block.block_hash
    return key if not block.is_null and block.block_hash_num_tokens in (None, end_tokens) else None


def _group(config: Any) -> LayoutGroup:
    is_recurrent = getattr(config, "requires_cow_source", False)
    return LayoutGroup(
        group_id=int(config.group_idx),
        block_tokens=int(_either(config, "tokens_per_block", "gpu_block_size")),
        chunk_tokens=int(_either(config, "tokens_per_chunk", "offloaded_block_size")),
        hashes_per_chunk=int(_either(config, "hashes_per_chunk", "hash_block_size_factor")),
        full_attention=_either(config, "sliding_window_size_in_chunks", "sliding_window_size_in_blocks") is None,
        stores_singly=not (is_recurrent or getattr(config, "is_eagle_group", False)),
    )


def _either(owner: Any, name: str, earlier_name: str) -> Any:
    return getattr(owner, name) if hasattr(owner, name) else getattr(owner, earlier_name)
