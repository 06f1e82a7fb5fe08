"""Paging: blocks of a fixed size, the last of which is rarely full, and blocks that several requests share."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Paged:
    """Blocks of one sequence.

    Attributes:
        blocks: How many.
        wasted_tokens: Slots of the last block that hold nothing.
    """

    blocks: int
    wasted_tokens: int


def paged(context_tokens: int, block_tokens: int) -> Paged:
    """Blocks that a context takes.

    >>> paged(4097, 16)
    Paged(blocks=257, wasted_tokens=15)

    Raises:
        ConfigError: the context is negative or the block has no token.
    """
    _require(context_tokens, block_tokens)
    blocks = -(-context_tokens // block_tokens)
    return Paged(blocks, blocks * block_tokens - context_tokens)


def shared_prefix_blocks(shared_tokens: int, request_tokens: int, requests: int, block_tokens: int) -> int:
    """Blocks of requests that begin with the same tokens; only full blocks can be shared.

    >>> shared_prefix_blocks(1000, 1500, 8, 16), 8 * paged(1500, 16).blocks
    (318, 752)

    Raises:
        ConfigError: a size is negative, or more is shared than a request has.
    """
    _require(request_tokens, block_tokens)
    if not 0 <= shared_tokens <= request_tokens or requests < 0:
        raise ConfigError(
            "requests share no more tokens than each of them has", got=(shared_tokens, request_tokens, requests)
        )
    shared = shared_tokens // block_tokens if requests else 0
    return shared + requests * (paged(request_tokens, block_tokens).blocks - shared)


def _require(context_tokens: int, block_tokens: int) -> None:
    if context_tokens < 0 or block_tokens < 1:
        raise ConfigError("a context has 0 tokens or more and a block at least 1", got=(context_tokens, block_tokens))
