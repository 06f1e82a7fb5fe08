"""Where prefixes that should be equal diverge: found from block hashes alone.

A prompt that carries a time, an id or shuffled tools near its start shares only what stands before; every block after
it is new. Seen from hashes: many requests leave the tree of shared prefixes at the same block. A system prompt with
different questions looks alike, so that alone proves nothing. Proof is a conversation that does not continue itself,
or blocks of equal content (hashes that do not include the prefix) after the place. Equal lengths make it suspected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import Trace

_MIN_REQUESTS = 8
_MIN_REST_BLOCKS = 2
_EQUAL_LENGTHS = 1.25
_PROVEN_SHARE = 0.5

Hashes = npt.NDArray[np.int64]


class Grade(StrEnum):
    """How sure it is that prefixes would be equal but for one place.

    ``PROVEN``: half of the requests continue a conversation or equal content after it. ``SUSPECTED``: what follows is
    equally long. ``OPEN``: a branch like any other, as after a common system prompt.
    """

    PROVEN = "proven"
    SUSPECTED = "suspected"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Divergence:
    """A place where many requests leave a common prefix and share nothing after it.

    Attributes:
        block: Position of the first block that differs; 0 is the start of the prompt.
        tokens: Tokens before it, which are shared.
        requests: Requests that leave here.
        request_frac: Their share of all requests.
        rest_tokens: Tokens after it in the median request.
        lost_tokens: Tokens after it in all of them but the first: what equal prefixes could save at most.
        grade: How sure it is that they would be equal otherwise.
        evidence: What was seen.
    """

    block: int
    tokens: int
    requests: int
    request_frac: float
    rest_tokens: int
    lost_tokens: int
    grade: Grade
    evidence: str


def divergences(trace: Trace, *, min_frac: float = 0.05, contents: Hashes | None = None) -> tuple[Divergence, ...]:
    """Places where at least a share of the requests leave a common prefix, the most frequent first.

    Args:
        trace: Requests whose block ids stand for a block and its prefix.
        min_frac: Smallest share of requests that counts.
        contents: ``(n_accesses,)`` hashes of each block's own tokens, where they are known.

    Raises:
        TraceError: the trace has no blocks, or there are not as many contents as accesses.
    """
    trace.require_blocks()
    if contents is not None and len(contents) != trace.n_accesses:
        raise TraceError("every block access has one content hash", got=f"{len(contents)} for {trace.n_accesses}")
    leaves = _leaves(trace)
    if not len(leaves.requests):
        return ()
    groups = np.unique(leaves.nodes)
    least = max(_MIN_REQUESTS, min_frac * trace.n_requests)
    found = [
        _divergence(trace, leaves.at(node), contents)
        for node in groups
        if np.count_nonzero(leaves.nodes == node) >= least
    ]
    return tuple(sorted(found, key=lambda place: (-place.requests, place.block)))


@dataclass(frozen=True, slots=True)
class _Leaves:
    """Requests that leave the tree of shared prefixes.

    Attributes:
        requests: Their numbers, ``(n,)``.
        positions: First block of each that no other request has.
        nodes: The block before, -1 at the start of the prompt.
    """

    requests: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]

    def at(self, node: int) -> _Leaves:
        """Those that leave after one block."""
        chosen = self.nodes == node
        return _Leaves(self.requests[chosen], self.positions[chosen], self.nodes[chosen])


def _leaves(trace: Trace) -> _Leaves:
    start = int(trace.block_offsets[0])
    offsets = trace.block_offsets - start
    single = np.bincount(trace.block_ids, minlength=trace.n_blocks)[trace.block_ids] == 1
    # A block that only one request has is followed by such blocks alone, so the first follows from their number.
    singles = np.zeros(trace.n_accesses + 1, np.int64)
    np.cumsum(single, out=singles[1:])
    own = singles[offsets[1:]] - singles[offsets[:-1]]
    requests = np.flatnonzero(own)
    positions = np.diff(offsets)[requests] - own[requests]
    first = offsets[requests] + positions
    nodes = np.where(positions > 0, trace.block_ids[np.maximum(first - 1, 0)].astype(np.int64), -1)
    return _Leaves(requests, positions, nodes)


def _divergence(trace: Trace, leaves: _Leaves, contents: Hashes | None) -> Divergence:
    sizes = np.diff(trace.block_offsets)[leaves.requests]
    rest = sizes - leaves.positions
    block = int(leaves.positions[0])
    grade, evidence = _grade(trace, leaves, rest, contents)
    return Divergence(
        block=block,
        tokens=block * trace.block_tokens,
        requests=len(leaves.requests),
        request_frac=len(leaves.requests) / trace.n_requests,
        rest_tokens=int(np.median(rest)) * trace.block_tokens,
        lost_tokens=int(rest[1:].sum()) * trace.block_tokens,
        grade=grade,
        evidence=evidence,
    )


def _grade(trace: Trace, leaves: _Leaves, rest: npt.NDArray[np.int64], contents: Hashes | None) -> tuple[Grade, str]:
    n_requests = len(leaves.requests)
    if contents is not None:
        rejoined = _rejoined(trace, leaves, contents)
        if rejoined >= _PROVEN_SHARE * (n_requests - 1):
            return Grade.PROVEN, f"{rejoined:,} of {n_requests:,} requests have equal blocks again after the place"
    broken, turns = _broken_turns(trace, leaves)
    if turns >= _MIN_REQUESTS and broken >= _PROVEN_SHARE * turns:
        return Grade.PROVEN, f"{broken:,} of {turns:,} turns do not continue their own conversation past the place"
    low, high = np.quantile(rest, (0.1, 0.9)).tolist()
    if low >= _MIN_REST_BLOCKS and high <= _EQUAL_LENGTHS * low:
        return Grade.SUSPECTED, "what follows is equally long in nearly all of these requests"
    return Grade.OPEN, "what follows differs in length, as after a common system prompt"


def _rejoined(trace: Trace, leaves: _Leaves, contents: Hashes) -> int:
    """Requests that, after the place, have the content of the one before them at half of the positions or more."""
    start = int(trace.block_offsets[0])
    count, before = 0, None
    for request, position in zip(leaves.requests.tolist(), leaves.positions.tolist(), strict=True):
        low, high = trace.block_offsets[request] - start + position + 1, trace.block_offsets[request + 1] - start
        rest = contents[low:high]
        if before is not None:
            length = min(len(rest), len(before))
            count += length > 0 and int(np.count_nonzero(rest[:length] == before[:length])) * 2 >= length
        before = rest
    return count


def _broken_turns(trace: Trace, leaves: _Leaves) -> tuple[int, int]:
    """Turns that share no more with the turn before them than what stands before the place, and all turns.

    The last block of a prompt may be partial, so it is not expected in the next one.
    """
    sessions = trace.session[leaves.requests]
    sizes = np.diff(trace.block_offsets)[leaves.requests]
    broken = turns = 0
    last: dict[int, int] = {}
    for session, size, position in zip(sessions.tolist(), sizes.tolist(), leaves.positions.tolist(), strict=True):
        if session < 0:
            continue
        if session in last:
            turns += 1
            broken += last[session] - 1 > position
        last[session] = size
    return broken, turns
