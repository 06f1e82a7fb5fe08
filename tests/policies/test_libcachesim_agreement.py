from __future__ import annotations

import gzip
import json
import random
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from autotune.core import registry
from autotune.core.eviction import BlockAccess, TierContext
from autotune.testing.policies import report, shrink

pytestmark = pytest.mark.engine("libcachesim")

_CAPACITIES = [1, 2, 3, 10, 100, 1000]
_STREAMS = ["zipf", "flat zipf", "loop", "scans", "conversation"]


def _zipf(n_blocks: int, exponent: float, seed: int) -> list[int]:
    weights = [(rank + 1) ** -exponent for rank in range(n_blocks)]
    return random.Random(seed).choices(range(n_blocks), weights, k=12_000)


def _conversation() -> list[int]:
    """Block ids of the bundled production trace, as if each were a request of its own."""
    rows = gzip.decompress((files("autotune_configs") / "traces" / "conversation_trace.first60.jsonl.gz").read_bytes())
    return [block for row in rows.splitlines()[:1500] for block in json.loads(row)["hash_ids"]][:30_000]


@cache
def _stream(name: str) -> list[int]:
    if name == "zipf":
        return _zipf(500, 1.0, seed=1)
    if name == "flat zipf":
        return _zipf(3000, 0.7, seed=2)
    if name == "loop":
        return [i % 110 for i in range(3000)]
    if name == "scans":
        return [hot if i % 40 < 25 else 10_000 + i for i, hot in enumerate(_zipf(300, 0.9, seed=3))]
    return _conversation()


def _our_hits(policy_name: str, capacity_blocks: int, blocks: list[int], **params: float) -> list[bool]:
    policy = registry.load(registry.POLICIES, policy_name)(TierContext(capacity_blocks), **params)
    hits = []
    for i, block in enumerate(blocks):
        hits.append(block in policy)
        report(policy, BlockAccess(block, -1, 0, i, i))
        shrink(policy, capacity_blocks)
    return hits


def _their_hits(class_name: str, capacity_blocks: int, blocks: list[int], **params: float) -> list[bool]:
    import libcachesim

    simulated: Any = getattr(libcachesim, class_name)(capacity_blocks, hashpower=14, **params)
    request = libcachesim.Request(obj_size=1)
    hits = []
    for i, block in enumerate(blocks):
        request.obj_id, request.clock_time = block, i
        hits.append(bool(simulated.get(request)))
    return hits


@pytest.mark.parametrize("stream", _STREAMS)
@pytest.mark.parametrize("capacity_blocks", _CAPACITIES)
@pytest.mark.parametrize(("ours", "theirs"), [("fifo", "FIFO"), ("lru", "LRU"), ("sieve", "Sieve"), ("arc", "ARC")])
def test_agrees_access_by_access(ours: str, theirs: str, capacity_blocks: int, stream: str) -> None:
    """Requests of one block hit and miss exactly where they do in libCacheSim."""
    blocks = _stream(stream)
    assert _our_hits(ours, capacity_blocks, blocks) == _their_hits(theirs, capacity_blocks, blocks)


@pytest.mark.parametrize("stream", _STREAMS)
@pytest.mark.parametrize(
    ("capacity_blocks", "small_frac", "ghost_frac", "promote_uses"),
    [
        (20, 0.1, 0.9, 2),
        (100, 0.1, 0.9, 2),
        (1000, 0.1, 0.9, 2),
        # libCacheSim needs a small queue of two blocks, so small capacities need a large share.
        (3, 0.7, 0.9, 2),
        (4, 0.5, 0.9, 2),
        (10, 0.3, 2.0, 1),
        (10, 0.3, 0.0, 3),
    ],
)
def test_s3fifo_agrees_access_by_access(
    capacity_blocks: int, small_frac: float, ghost_frac: float, promote_uses: int, stream: str
) -> None:
    """S3-FIFO hits and misses exactly where it does in libCacheSim, wherever that can cache at all."""
    blocks = _stream(stream)
    ours = _our_hits(
        "s3fifo", capacity_blocks, blocks, small_frac=small_frac, ghost_frac=ghost_frac, promote_uses=promote_uses
    )
    theirs = _their_hits(
        "S3FIFO",
        capacity_blocks,
        blocks,
        small_size_ratio=small_frac,
        ghost_size_ratio=ghost_frac,
        move_to_main_threshold=promote_uses,
    )
    assert ours == theirs


@pytest.mark.parametrize("capacity_blocks", [1, 2, 10, 19])
def test_s3fifo_caches_where_libcachesim_cannot(capacity_blocks: int) -> None:
    """With room for fewer than two blocks in the small queue it holds one, and blocks in use do hit."""
    assert sum(_our_hits("s3fifo", capacity_blocks, [7] * 20)) == 19
