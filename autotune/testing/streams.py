"""Small traces and cost profiles: made by hand, and arbitrary ones with shared prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.trace import UNKNOWN, Trace, TraceProvenance, dense_ids

BLOCK_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        at_s: Arrival.
        blocks: Names of its blocks in prefix order; a name stands for the block and its whole prefix.
        input_tokens: Prompt length; whole blocks if not given.
        output_tokens: Generated tokens.
    """

    at_s: float
    blocks: Sequence[int]
    input_tokens: int | None = None
    output_tokens: int = 0


def make_trace(asks: Sequence[Ask], block_tokens: int = BLOCK_TOKENS, tick_s: float = 0.0) -> Trace:
    """A trace of these requests; blocks are numbered by first appearance."""
    lengths = [len(ask.blocks) for ask in asks]
    names = np.array([name for ask in asks for name in ask.blocks], np.int64)
    ids, n_blocks = dense_ids(names)
    tokens = [
        n * block_tokens if ask.input_tokens is None else ask.input_tokens for ask, n in zip(asks, lengths, strict=True)
    ]
    return Trace(
        arrival_s=np.array([ask.at_s for ask in asks], np.float64),
        input_tokens=np.array(tokens, np.int32),
        output_tokens=np.array([ask.output_tokens for ask in asks], np.int32),
        session=np.full(len(asks), UNKNOWN, np.int32),
        stop_reason=np.full(len(asks), UNKNOWN, np.int32),
        block_offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        block_ids=ids,
        n_blocks=n_blocks,
        block_tokens=block_tokens,
        provenance=TraceProvenance("made", ("by hand",), "00" * 32),
        tick_s=tick_s,
    )


def make_costs(**changes: float) -> CostProfile:
    """Costs in round figures: 1 s per prompt token, 1 byte per token, links of 8 bytes per second without latency."""
    figures: dict[str, float] = {
        "prefill_linear_s": 1.0,
        "prefill_quadratic_s": 0.0,
        "load_bytes_per_s": 8.0,
        "load_latency_s": 0.0,
        "store_bytes_per_s": 8.0,
        "store_latency_s": 0.0,
        "disk_bytes_per_s": 8.0,
        "disk_latency_s": 0.0,
        "store_exposed_frac": 0.0,
    }
    return CostProfile(kv_bytes_per_token=1, source="made by hand", **(figures | changes))


def chain_to(node: int) -> list[int]:
    """Nodes of a binary tree from its root, 1, to ``node``; nothing for 0."""
    return [node >> shift for shift in reversed(range(node.bit_length()))]


@st.composite
def traces(draw: st.DrawFn, max_requests: int = 40, depth: int = 6) -> Trace:
    """Requests along the branches of a binary tree: some at one moment, some without blocks or with part of one."""
    asks, now_s = [], 0.0
    for _ in range(draw(st.integers(1, max_requests))):
        now_s += draw(st.sampled_from([0.0, 0.0, 0.5, 3.0, 20.0]))
        blocks = chain_to(draw(st.integers(0, 2**depth - 1)))
        spare = draw(st.integers(1 - BLOCK_TOKENS, BLOCK_TOKENS - 1))
        tokens = max(0, len(blocks) * BLOCK_TOKENS + spare)
        asks.append(Ask(now_s, blocks, tokens, draw(st.integers(0, 40))))
    return make_trace(asks)


def cost_profiles() -> st.SearchStrategy[CostProfile]:
    """Machines on which loading always pays, never pays, or pays for long runs, from the host and from disk."""
    return st.builds(
        make_costs,
        prefill_linear_s=st.sampled_from([0.01, 0.2, 1.0]),
        prefill_quadratic_s=st.sampled_from([0.0, 0.01]),
        load_bytes_per_s=st.sampled_from([1.0, 8.0, 1e6]),
        load_latency_s=st.sampled_from([0.0, 1.0, 5.0]),
        disk_bytes_per_s=st.sampled_from([2.0, 1e6]),
        disk_latency_s=st.sampled_from([0.0, 2.0]),
        store_exposed_frac=st.sampled_from([0.0, 0.5]),
    )
