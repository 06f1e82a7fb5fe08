"""Formats of content: raw text and token ids, hashed block by block."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trace import Trace
from autotune.traces.hashing import BlockNumbers, chain_hash
from autotune.traces.lmcache_agent import full_blocks, n_tokens
from autotune.traces.stats import describe

Write = Callable[..., Path]


def row(time_us: int, prompt: str, session: str | None = "s") -> dict[str, object]:
    """A row of this format."""
    return {"timestamp": time_us, "input": prompt, "output": "12345678", "session_id": session}


def test_blocks_are_64_characters_of_4_per_token(write_rows: Write) -> None:
    """Tokens and blocks follow from the text's length, partial blocks are none."""
    trace = Trace.open(f"lmcache-agent:{write_rows([row(0, 'é' * 127)])}")
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist(), trace.block_tokens) == ([31], [2], 16)
    assert trace.n_accesses == 1


@given(st.text(max_size=300))
def test_blocks_and_tokens_agree(text: str) -> None:
    """There is one full block per 16 tokens, and together the blocks are the beginning of the text."""
    blocks = list(full_blocks(text))
    assert len(blocks) == n_tokens(text) // 16
    assert b"".join(blocks).decode() == text[: 64 * len(blocks)]


def test_block_identity_covers_the_prefix(write_rows: Write) -> None:
    """Equal text after another beginning is another block; after the same beginning it is the same."""
    a, b, c = "a" * 64, "b" * 64, "c" * 64
    trace = Trace.open(f"lmcache-agent:{write_rows([row(0, a + c), row(1, b + c), row(2, a + c + b)])}")
    assert trace.block_ids.tolist() == [0, 1, 2, 3, 0, 1, 4]


def test_files_share_content_and_are_sorted_by_time(write_rows: Write) -> None:
    """Overlapping files become one stream in order of time, in which equal prompts share blocks."""
    late = write_rows([row(3_000_000, "a" * 64, "x"), row(1_000_000, "b" * 64, "x")], "a.jsonl")
    early = write_rows([row(2_000_000, "a" * 64, "y")], "b.jsonl")
    trace = Trace.open([f"lmcache-agent:{late}", f"lmcache-agent:{early}"])
    assert trace.arrival_s.tolist() == [0, 1, 2]
    assert trace.block_ids.tolist() == [0, 1, 1]
    assert trace.session.tolist() == [0, 1, 0]
    assert trace.provenance.options == (("sorted_by", "time"),)


def test_session_may_be_absent(write_rows: Write) -> None:
    """Rows without a session are of an unknown one."""
    without = row(0, "a")
    del without["session_id"]
    assert Trace.open(f"lmcache-agent:{write_rows([without, row(1, 'a', None)])}").session.tolist() == [-1, -1]


def test_half_surrogate_pairs_have_bytes(write_rows: Write) -> None:
    """JSON can hold text that plain UTF-8 cannot encode; it is hashed all the same."""
    text = json.dumps(row(0, "x" * 63)).replace('xx"', 'xx\\ud800"')
    assert Trace.open(f"lmcache-agent:{write_rows([text])}").n_accesses == 1


def test_chain_hash_is_stable() -> None:
    """The hash is what it was in earlier versions, so that recordings stay comparable."""
    first = chain_hash(b"", b"block")
    assert first.hex() == "e72e1f139f29cc0f1c2ba9150f64e9b8"
    assert chain_hash(first, b"block") != first


def test_block_numbers_follow_first_appearance() -> None:
    """Known chains keep their numbers."""
    numbers = BlockNumbers()
    assert numbers.of(iter([b"a", b"b"])) == [0, 1]
    assert numbers.of(iter([b"b", b"b"])) == [2, 3]
    assert numbers.of(iter([b"a", b"b", b"c"])) == [0, 1, 4]


@pytest.mark.parametrize(
    ("name", "requests", "accesses"), [("magagent", 6, 244), ("miniswe", 5, 471), ("taubench", 12, 45)]
)
def test_published_rows(data: Path, name: str, requests: int, accesses: int) -> None:
    """Rows of all three published kinds of agents are read."""
    stats = describe(Trace.open(f"lmcache-agent:{data}/lmcache-agent/{name}.jsonl.gz"))
    assert (stats.requests, stats.accesses, stats.chain_violations) == (requests, accesses, 0)


def test_token_ids_are_hashed_by_full_blocks(write_rows: Write) -> None:
    """Prompts of token ids share the blocks of their common beginning, and only full blocks count."""
    prompts = [list(range(40)), [*range(16), *range(99, 75, -1)], list(range(-20, -5))]
    rows = [
        {"arrival_time_ns": 10 - n, "input_tok_ids": ids, "output_toks": n, "input_toks": 0}
        for n, ids in enumerate(prompts)
    ]
    trace = Trace.open(f"token-ids:{write_rows(rows)}")
    assert trace.input_tokens.tolist() == [15, 40, 40]
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    assert trace.provenance.options == (("block_tokens", "16"), ("sorted_by", "time"))
    assert Trace.open(f"token-ids:{write_rows(rows)}", block_tokens=8).n_accesses == 11
