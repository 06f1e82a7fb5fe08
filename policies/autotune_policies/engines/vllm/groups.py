"""Groups of layers: which part of a prompt a chunk's key stands for, and which chunks are of no use without each other.

A key is the hash of the prompt up to the chunk's end, followed by the number of its KV-cache group in 4 bytes, big
endian. In a hybrid model, layers with full attention need every chunk of a prefix; layers with a window need the last
few before the place where a request goes on. So the chunks that end at one token are of use together.

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
        self._suffixes = tuple(self.chunk_tokens)
        self.tell_full_attention(full_attention)

    def tell_full_attention(self, groups: Collection[int] | None) -> None:
        """Say which groups have full attention; with several groups and nothing told, none is taken for one."""
        if groups is None:
            groups = (
                () if len(self.chunk_tokens) > 1 else [int.from_bytes(suffix, "big") for suffix in self.chunk_tokens]
            )
        self._full = frozenset(map(_suffix, groups))

    @property
    def has_siblings(self) -> bool:
        """Whether a prompt's chunks lie in several groups, and it is known which of them have full attention."""
        return len(self._suffixes) > 1 and bool(self._full)

    def is_chained(self, key: bytes) -> bool:
        """Whether a chunk is of no use without the one before it, because its group has full attention."""
        return key[-GROUP_BYTES:] in self._full

    def siblings_of(self, key: bytes) -> list[bytes]:
        """Keys of the chunks that end at the same token in the other groups.

        Without a chunk of full attention nothing of its prompt can be loaded from there on, and without the window that
        ends with it nothing can be loaded up to there; either way the others have lost their use.
        """
        prefix, suffix = key[:-GROUP_BYTES], key[-GROUP_BYTES:]
        return [prefix + other for other in self._suffixes if other != suffix]

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
