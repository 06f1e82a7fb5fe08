"""Chained block hashes, for formats that carry content instead of block ids.

The identity of a block is its content *and* all that comes before it, so the hash of a block covers the hash of its
predecessor. Source: vLLM ``v1/core/kv_cache_utils.py`` (``hash_block_tokens``) chains in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

DIGEST_BYTES = 16


def chain_hash(parent: bytes, content: bytes) -> bytes:
    """Hash of the block that holds ``content`` and continues the block with hash ``parent``.

    Args:
        parent: Hash of the block before, empty for the first block of a prompt.
        content: The block's content as bytes.

    Returns:
        ``DIGEST_BYTES`` bytes of BLAKE2b over ``parent`` followed by ``content``.
    """
    return blake2b(parent + content, digest_size=DIGEST_BYTES).digest()


class BlockNumbers:
    """Numbers chained blocks by first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def of(self, blocks: Iterator[bytes]) -> list[int]:
        """Numbers of the blocks of one prompt, given their contents in prefix order."""
        parent = b""
        result = []
        for content in blocks:
            parent = chain_hash(parent, content)
            result.append(self._numbers.setdefault(parent, len(self._numbers)))
        return result
