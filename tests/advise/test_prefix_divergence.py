"""Places where prefixes diverge, found from hashes alone."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest

from autotune.advise.prefix import Grade, divergences
from autotune.core.errors import TraceError
from autotune.core.trace import Trace, TraceProvenance, dense_ids

BLOCK_TOKENS = 16


def digest(*parts: object) -> int:
    """63 bits of a hash."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def trace_of(prompts: list[list[str]], sessions: list[int] | None = None) -> tuple[Trace, npt.NDArray[np.int64]]:
    """A trace whose ids are hashes of blocks with their prefixes, and the hashes of the blocks alone."""
    chains, contents = [], []
    for blocks in prompts:
        parent = 0
        for block in blocks:
            parent = digest(parent, block)
            chains.append(parent)
            contents.append(digest(block))
    ids, n_blocks = dense_ids(np.array(chains, np.int64))
    sizes = np.array([len(blocks) for blocks in prompts])
    trace = Trace(
        arrival_s=np.arange(len(prompts), dtype=np.float64),
        input_tokens=(sizes * BLOCK_TOKENS).astype(np.int32),
        output_tokens=np.ones(len(prompts), np.int32),
        session=np.array(sessions if sessions else [-1] * len(prompts), np.int32),
        stop_reason=np.full(len(prompts), -1, np.int32),
        block_offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        block_ids=ids,
        n_blocks=n_blocks,
        block_tokens=BLOCK_TOKENS,
        provenance=TraceProvenance("test", (), ""),
    )
    return trace, np.array(contents, np.int64)


def with_clock(n_requests: int, place: int, length: int = 20) -> list[list[str]]:
    """Prompts that are equal but for one block."""
    return [[f"b{i}" if i != place else f"time {r}" for i in range(length)] for r in range(n_requests)]


@pytest.mark.parametrize("place", [0, 1, 7])
def test_a_clock_in_the_prompt_is_proven_by_contents(place: int) -> None:
    """The block with the time is found exactly, with the share of requests, and equal contents after it prove it."""
    trace, contents = trace_of(with_clock(30, place) + [[f"other {r}"] for r in range(5)] * 2)
    found = divergences(trace, contents=contents)[0]
    assert (found.block, found.tokens) == (place, place * BLOCK_TOKENS)
    assert (found.requests, found.request_frac) == (30, 30 / 40)
    assert found.grade is Grade.PROVEN
    assert found.rest_tokens == (20 - place) * BLOCK_TOKENS
    assert found.lost_tokens == 29 * found.rest_tokens
    assert "30 requests have equal blocks again" in found.evidence


def test_without_contents_it_is_suspected() -> None:
    """From hashes with prefixes alone, equal lengths after the place make it suspected."""
    trace, _ = trace_of(with_clock(30, 3))
    (found,) = divergences(trace)
    assert (found.block, found.grade) == (3, Grade.SUSPECTED)


def test_a_conversation_that_does_not_continue_itself_proves_it() -> None:
    """Turns of a session grow, but share only what stands before the time: no contents are needed."""
    prompts, sessions = [], []
    for session in range(4):
        for turn in range(5):
            prompts.append(["system", f"time {session} {turn}", *(f"s{session} m{i}" for i in range(4 * turn + 6))])
            sessions.append(session)
    (found,) = divergences(trace_of(prompts, sessions)[0])
    assert (found.block, found.grade) == (1, Grade.PROVEN)
    assert found.evidence.startswith("16 of 16 turns")


def test_questions_after_a_system_prompt_are_open() -> None:
    """Different questions of different length after a common prompt are no fault."""
    prompts = [["system", "tools", *(f"q{r} {i}" for i in range(1 + r % 9))] for r in range(40)]
    trace, contents = trace_of(prompts)
    assert [place.grade for place in divergences(trace, contents=contents)] == [Grade.OPEN]


def test_a_conversation_that_continues_itself_has_no_place() -> None:
    """Each turn begins with all of the turn before it: only ends of conversations leave the tree."""
    prompts = [[f"s{s} m{i}" for i in range(4 * turn + 4)] for s in range(3) for turn in range(8)]
    assert divergences(trace_of(prompts)[0]) == ()


def test_equal_prompts_and_rare_places_are_left_out() -> None:
    """Prompts that are all equal diverge nowhere, and a place of few requests is not reported."""
    assert divergences(trace_of([["a", "b"]] * 20)[0]) == ()
    mixed = trace_of(with_clock(10, 2) + [[f"b{i}" for i in range(9)]] * 300)[0]
    assert divergences(mixed) == ()
    assert divergences(mixed, min_frac=0.01)[0].requests == 10


def test_a_slice_has_places_of_its_own() -> None:
    """Positions are those within the requests of a slice."""
    trace, contents = trace_of(with_clock(40, 5))
    part = trace.slice(10, 40)
    found = divergences(part, contents=contents[10 * 20 :])[0]
    assert (found.block, found.requests, found.grade) == (5, 30, Grade.PROVEN)


def test_what_cannot_be_used_is_refused() -> None:
    """A trace without blocks and contents of another number are named."""
    trace, contents = trace_of(with_clock(10, 2))
    with pytest.raises(TraceError, match="one content hash; got 199 for 200"):
        divergences(trace, contents=contents[1:])
