from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.eviction import NEVER, BlockAccess, EvictionPolicy, TierContext
from autotune.testing.policies import Round, accesses, chain, play, report, round_lists, shrink
from autotune_policies.clairvoyant.clairvoyant import ClairvoyantPolicy
from autotune_policies.clairvoyant.clairvoyant_seconds import ClairvoyantSecondsPolicy
from autotune_policies.cost_aware.gdsf import GDSFPolicy
from autotune_policies.frequency.lfu import LFUPolicy
from autotune_policies.frequency.lrfu import LRFUPolicy
from autotune_policies.heap import VictimHeap
from autotune_policies.recency.lru import LRUPolicy

_NS_PER_S = 1_000_000_000


def _feed(policy: EvictionPolicy, blocks: list[int], start_s: int = 0) -> None:
    for i, block in enumerate(blocks, start=start_s):
        report(policy, BlockAccess(block, -1, 0, i * _NS_PER_S, i))


def test_lfu_evicts_the_least_used_then_the_least_recent() -> None:
    """Counts decide, and among equal counts the older last use."""
    policy = LFUPolicy(TierContext(9))
    _feed(policy, [1, 1, 2, 3, 2, 4, 3, 3])
    assert [policy.evict() for _ in range(4)] == [4, 1, 2, 3]


@pytest.mark.parametrize(("ghost_ratio", "expected"), [(1.0, [2, 1]), (0.0, [1, 2])])
def test_lfu_remembers_counts_of_blocks_that_left(ghost_ratio: float, expected: list[int]) -> None:
    """A block that returns goes on counting where it stopped, if ghosts are kept."""
    policy = LFUPolicy(TierContext(2), ghost_ratio=ghost_ratio)
    _feed(policy, [1, 1])
    assert policy.evict() == 1
    _feed(policy, [1, 2, 2] if ghost_ratio else [1, 2], start_s=2)
    assert [policy.evict() for _ in range(2)] == expected


def test_lfu_ghosts_are_bounded() -> None:
    """Of many blocks that left, only the last ones count on."""
    policy = LFUPolicy(TierContext(2), ghost_ratio=1.0)
    _feed(policy, list(range(10)))
    while policy.evict() >= 0:
        pass
    _feed(policy, [9, 0, 8], start_s=10)
    assert [policy.evict() for _ in range(3)] == [0, 9, 8]


@given(
    uses=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=40),
    half_life_s=st.floats(0.5, 500.0),
)
def test_lrfu_orders_by_combined_recency_and_frequency(uses: list[tuple[int, int]], half_life_s: float) -> None:
    """The victim's sum of faded uses is the smallest, up to rounding."""
    policy = LRFUPolicy(TierContext(10), half_life_s=half_life_s)
    now_s, past = 0, dict[int, list[int]]()
    for sequence, (block, wait_s) in enumerate(uses):
        now_s += wait_s
        past.setdefault(block, []).append(now_s)
        report(policy, BlockAccess(block, -1, 0, now_s * _NS_PER_S, sequence))

    def crf_log2(block: int) -> float:
        newest_s = past[block][-1]
        faded = sum(2.0 ** ((used_s - newest_s) / half_life_s) for used_s in past[block])
        return math.log2(faded) - (now_s - newest_s) / half_life_s

    victims = [policy.evict() for _ in past]
    for earlier, later in pairwise(victims):
        assert crf_log2(earlier) <= crf_log2(later) + 1e-6


def test_lrfu_with_a_short_half_life_is_lru() -> None:
    """When a use fades within the shortest gap between uses, only the last one counts."""
    rng = random.Random(4)
    rounds = [Round(rng.randint(1, 63)) for _ in range(300)]
    context = TierContext(11)
    assert play(LRFUPolicy(context, half_life_s=1e-6), rounds) == play(LRUPolicy(context), rounds)


def test_gdsf_keeps_what_is_dear_until_it_ages() -> None:
    """A dear block outlives cheap ones, until the key of what left has caught up with it."""
    policy = GDSFPolicy(TierContext(2, (1.0, 3.0)))
    dear = BlockAccess(100, -1, 1, 0, 0)
    policy.insert(dear)
    left = []
    for i in range(1, 8):
        report(policy, BlockAccess(i, -1, 0, i, i))
        left += shrink(policy, 2)
    assert left == [1, 2, 3, 4, 100, 5]  # cheap keys in s: 1, 1, 2, 2, 3, 3, and at 3 the dear one is the oldest


@pytest.mark.parametrize("depth_blocks", [0, 1, 7])
def test_gdsf_counts_uses(depth_blocks: int) -> None:
    """At equal cost the block with more uses stays; beyond the table the deepest known cost holds."""
    policy = GDSFPolicy(TierContext(2, (1.0, 3.0)))
    for sequence, block in enumerate([1, 1, 2]):
        report(policy, BlockAccess(block, -1, depth_blocks, 0, sequence))
    assert policy.evict() == 2


def test_clairvoyant_evicts_the_farthest_next_use() -> None:
    """Never again goes first, then the farthest."""
    policy = ClairvoyantPolicy(TierContext(4))
    for sequence, (block, next_use) in enumerate([(1, 5), (2, NEVER), (3, 9), (4, 7)]):
        policy.insert(BlockAccess(block, -1, 0, 0, sequence, next_use))
    assert [policy.evict() for _ in range(4)] == [2, 3, 4, 1]


def test_clairvoyant_evicts_the_deepest_among_equals() -> None:
    """Blocks of one prompt that no request needs again leave tail first."""
    policy = ClairvoyantPolicy(TierContext(4))
    play(policy, [Round(8)])
    assert [policy.evict() for _ in range(4)] == [8, 4, 2, 1]


@given(
    blocks=st.lists(st.integers(0, 20), min_size=1, max_size=120),
    capacity_blocks=st.integers(1, 12),
    name=st.sampled_from([name for name in registry.names(registry.POLICIES) if name != "clairvoyant"]),
)
def test_nothing_beats_the_clairvoyant(blocks: list[int], capacity_blocks: int, name: str) -> None:
    """No policy hits more often than farthest next use on requests of one block."""
    next_use, uses = dict[int, int](), list[int]()
    for i in reversed(range(len(blocks))):
        uses.append(next_use.get(blocks[i], NEVER))
        next_use[blocks[i]] = i
    uses.reverse()

    def hits(policy_name: str) -> int:
        policy: EvictionPolicy = registry.load(registry.POLICIES, policy_name)(TierContext(capacity_blocks))
        n_hits = 0
        for i, block in enumerate(blocks):
            n_hits += block in policy
            report(policy, BlockAccess(block, -1, 0, i * _NS_PER_S, i, uses[i], i))
            shrink(policy, capacity_blocks)
        return n_hits

    assert hits(name) <= hits("clairvoyant")


def test_clairvoyant_seconds_weighs_value_against_waiting() -> None:
    """A hit worth four times as much may be three times as far away; what has no next use goes first."""
    policy = ClairvoyantSecondsPolicy(TierContext(4, (1.0, 4.0)))
    policy.insert(BlockAccess(1, -1, 0, 0, 0, next_use=20, request=10))  # 1 s in 10 requests
    policy.insert(BlockAccess(2, -1, 1, 0, 1, next_use=40, request=10))  # 4 s in 30
    policy.insert(BlockAccess(3, -1, 1, 0, 2, next_use=60, request=10))  # 4 s in 50
    policy.insert(BlockAccess(4, -1, 1, 0, 3, next_use=NEVER, request=10))
    assert [policy.evict() for _ in range(4)] == [4, 3, 1, 2]


@given(rounds=round_lists(), capacity_blocks=st.sampled_from([1, 3, 8, 20]))
@pytest.mark.parametrize("name", ["clairvoyant", "clairvoyant_seconds"])
def test_bounds_keep_prefixes_whole(name: str, rounds: list[Round], capacity_blocks: int) -> None:
    """A block whose successor is resident never leaves, so no resident is out of reach."""
    policy: EvictionPolicy = registry.load(registry.POLICIES, name)(TierContext(capacity_blocks, (1.0, 0.1)))
    for request in accesses(rounds):
        for access in request:
            report(policy, access)
        shrink(policy, capacity_blocks)
        assert all(set(chain(block)) <= {b for b in range(64) if b in policy} for block in range(64) if block in policy)


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "discard"]), st.integers(0, 9), st.integers(-5, 5)), min_size=1, max_size=300
    ),
    st.sets(st.integers(0, 9)),
)
def test_heap_finds_the_smallest_and_forgets_stale_entries(steps: list[tuple[str, int, int]], pinned: set[int]) -> None:
    """The heap answers as a look at all candidates would, and never holds more than twice their number plus 64."""
    heap, keys = VictimHeap(), dict[int, tuple[int, int]]()
    for sequence, (action, block, key) in enumerate(steps):
        if action == "set":
            heap.set(block, key, sequence)
            keys[block] = key, sequence
        else:
            heap.discard(block)
            keys.pop(block, None)
        idle = [(rank, candidate) for candidate, rank in keys.items() if candidate not in pinned]
        assert heap.smallest(pinned.__contains__) == (min(idle)[1] if idle else -1)
        assert len(heap) == len(keys)
        assert len(heap._entries) <= 2 * len(keys) + 64
