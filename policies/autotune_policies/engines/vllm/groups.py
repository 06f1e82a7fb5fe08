"""Groups of layers: which part of a prompt a chunk's key stands for, and which chunks are of no use without each other.

A key is the hash of the prompt up to the chunk's end, followed by the number of its KV-cache group in 4 bytes, big
endian. In a hybrid model, layers with full attention need every chunk of a prefix; layers with a window need the last
few before the place where a request goes on. So the chunk in a group with full attention carries those of the others.

Source: vLLM 0.32, ``v1/kv_offload/base.py`` (``make_offload_key``) and
``distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`` (``_lookup_complete_chunks``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

GROUP_BYTES = 4


class ChunkGroups:
    """The groups that a host pool serves.

    Args:
        chunk_tokens: Tokens of one chunk by group number.
        full_attention: Numbers of the groups with full attention; ``None`` where the engine has not told.
    """

    def __init__(self, chunk_tokens: Mapping[int, int], full_attention: Collection[int] | None) -> None:
        self.chunk_tokens = {_suffix(group): tokens for group, tokens in chunk_tokens.items()}
        self._full: frozenset[bytes] = frozenset()
        self._windowed: tuple[bytes, ...] = ()
        self.tell_full_attention(full_attention)

    def tell_full_attention(self, groups: Collection[int] | None) -> None:
        """Say which groups have full attention; with several groups and nothing told, none is taken for one."""
        if groups is None:
            groups = (
                () if len(self.chunk_tokens) > 1 else [int.from_bytes(suffix, "big") for suffix in self.chunk_tokens]
            )
        self._full = frozenset(map(_suffix, groups))
        self._windowed = tuple(suffix for suffix in self.chunk_tokens if suffix not in self._full)

    @property
    def has_siblings(self) -> bool:
        """Whether chunks of some groups are of no use without those of others."""
        return bool(self._windowed and self._full)

    def is_chained(self, key: bytes) -> bool:
        """Whether a chunk is of no use without the one before it, because its group has full attention."""
        return key[-GROUP_BYTES:] in self._full

    def siblings_lost_with(self, key: bytes) -> list[bytes]:
        """Keys of the chunks that end at the same token in groups that are of no use without this one."""
        if key[-GROUP_BYTES:] not in self._full:
            return []
        prefix = key[:-GROUP_BYTES]
        return [prefix + suffix for suffix in self._windowed]

    @staticmethod
    def in_order(key_groups: Sequence[Sequence[bytes]], req_context: Any) -> list[bytes]:
        """Keys of all groups from the first token on, by the position that the engine recorded for each."""
        keys = [key for group in key_groups for key in group]
        positions = {key: req_context.get_offload_key_position(key) for key in keys}
        if None not in positions.values():
            keys.sort(key=positions.__getitem__)
        return keys


def _suffix(group: int) -> bytes:
    return group.to_bytes(GROUP_BYTES, "big")
