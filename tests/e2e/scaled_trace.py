"""A cut of a recorded trace, small enough for a tiny model on two CPU cores, with the structure that caches live on.

What is kept: whole conversations with all their requests, so the tree of shared prefixes of what is kept is the
recorded one; the order of arrivals; and the gaps between them, all divided by one factor. What is scaled: blocks of 512
tokens become blocks of 32 (the smallest that attention on a CPU takes), so prompts get 16 times shorter; outputs get
shorter too. What is left out: most conversations, drawn by a hash of their first own block, and those with a prompt
that would not fit on a small device. Pools scaled like the number of blocks then see the same reuse distances.

Source: sampling by a hash of what is accessed keeps reuse distances in proportion: Waldspurger et al., "Efficient MRC
Construction with SHARDS", FAST 2015, section 3.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.core.trace import Trace, dense_ids

BLOCK_TOKENS = 32
MS_PER_S = 1000
_DIGITS = 4  # tokens at the start of a block that spell its id
_HASH_RANGE = 2**32


@dataclass(frozen=True, slots=True)
class CutSettings:
    """How a trace is scaled down.

    Attributes:
        share_frac: Share of the conversations that is kept.
        longest_blocks: Conversations with a prompt of more blocks are left out.
        output_factor: Outputs get this many times shorter, but keep one token at least.
        speed_up: Times between arrivals get this many times shorter.
        seed: Which conversations are drawn.
        requests: Only so many requests from the start; None = all.
    """

    share_frac: float = 0.075
    longest_blocks: int = 64
    output_factor: int = 128
    speed_up: float = 30.0
    seed: int = 1
    requests: int | None = None


def cut(trace: Trace, settings: CutSettings) -> Trace:
    """The scaled-down trace; see the description of the module.

    Args:
        trace: A trace with block ids that stand for a block and its whole prefix.
        settings: How to scale.

    Returns:
        A trace with blocks of 32 tokens that starts at time 0.
    """
    return _scaled(_requests(trace, kept_requests(trace, settings)), settings)


def kept_requests(trace: Trace, settings: CutSettings) -> npt.NDArray[np.int64]:
    """``(n_kept,)`` numbers of the requests that are kept, ascending."""
    conversation = conversations(trace)
    n_blocks = np.diff(trace.block_offsets)
    too_long = np.isin(conversation, conversation[n_blocks > settings.longest_blocks])
    drawn = _hashes(conversation, settings.seed) < settings.share_frac * _HASH_RANGE
    return np.flatnonzero(drawn & ~too_long)[: settings.requests]


def conversations(trace: Trace) -> npt.NDArray[np.int64]:
    """``(n_requests,)`` number of the conversation that each request belongs to.

    Requests belong together if they share a block beyond the first, which in the recorded traces is a system prompt
    that all share. A request of one block only is a conversation of its own.
    """
    lengths = np.diff(trace.block_offsets)
    alone = -1 - np.arange(trace.n_requests, dtype=np.int64)
    second = np.minimum(trace.block_offsets[:-1] + 1, max(0, trace.n_accesses - 1))
    return np.where(lengths > 1, trace.block_ids[second].astype(np.int64), alone)


def prompt_tokens(block_ids: npt.NDArray[np.int32], input_tokens: int, vocabulary: int) -> list[int]:
    """The prompt of a request, a function of its blocks alone.

    Equal ids give equal tokens; different ids give blocks whose first tokens already differ, because these spell the
    id. So two prompts share exactly the prefix that they shared in the recording.

    Args:
        block_ids: Ids in prefix order.
        input_tokens: Length of the prompt; the last block may be partial.
        vocabulary: Tokens that the model knows; the last one, which ends a text, is not used.
    """
    tokens = [token for block in block_ids for token in _block_tokens(int(block), vocabulary)]
    return tokens[:input_tokens]


def write_mooncake(trace: Trace, path: Path) -> None:
    """Write a trace in Mooncake's format, which the tuner and the replay client both read."""
    with path.open("w", encoding="utf-8") as file:
        for request in range(trace.n_requests):
            row = {
                "timestamp": round(float(trace.arrival_s[request]) * MS_PER_S, 3),
                "input_length": int(trace.input_tokens[request]),
                "output_length": int(trace.output_tokens[request]),
                "hash_ids": trace.blocks_of(request).tolist(),
            }
            file.write(json.dumps(row) + "\n")


def read_mooncake(path: Path) -> Trace:
    """Read what :func:`write_mooncake` wrote."""
    return Trace.open(f"mooncake:{path}", block_tokens=BLOCK_TOKENS)


def _requests(trace: Trace, chosen: npt.NDArray[np.int64]) -> Trace:
    """Some requests of a trace, with ids numbered anew."""
    lengths = np.diff(trace.block_offsets)[chosen]
    ids, n_blocks = dense_ids(np.concatenate([trace.blocks_of(int(request)) for request in chosen]))
    return replace(
        trace,
        arrival_s=trace.arrival_s[chosen],
        input_tokens=trace.input_tokens[chosen],
        output_tokens=trace.output_tokens[chosen],
        session=trace.session[chosen],
        stop_reason=trace.stop_reason[chosen],
        block_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        block_ids=ids,
        n_blocks=n_blocks,
    )


def _scaled(trace: Trace, settings: CutSettings) -> Trace:
    factor = trace.block_tokens // BLOCK_TOKENS
    return replace(
        trace,
        arrival_s=(trace.arrival_s - trace.arrival_s[0]) / settings.speed_up,
        input_tokens=-(-trace.input_tokens // factor),
        output_tokens=np.maximum(1, trace.output_tokens // settings.output_factor).astype(np.int32),
        block_tokens=BLOCK_TOKENS,
        tick_s=trace.tick_s / settings.speed_up,
    )


def _hashes(keys: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.uint64]:
    """A well mixed number below 2^32 per key.

    Source: the finaliser of SplitMix64, Steele et al., "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    """
    mixed = keys.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)


def _block_tokens(block: int, vocabulary: int) -> list[int]:
    """The tokens of a block: its id in digits, then whatever a generator seeded with it draws."""
    base = vocabulary - 1
    digits = [block // base**place % base for place in range(_DIGITS)]
    drawn = np.random.default_rng(block).integers(0, base, BLOCK_TOKENS - _DIGITS)
    return [*digits, *drawn.tolist()]
