"""What vLLM's ARC does, step by step; against vLLM itself it is compared where that is installed."""

from __future__ import annotations

from autotune.core.eviction import BlockAccess, PolicySpec, TierContext
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.testing.streams import make_costs
from autotune_policies.adaptive.vllm_arc import VLLMARCPolicy


def access(block: int) -> BlockAccess:
    """An access; this policy looks at the block only."""
    return BlockAccess(block, -1, 0, 0, 0)


def offer(policy: VLLMARCPolicy, *blocks: int) -> list[int]:
    """Blocks come in as an engine brings them in; the victims."""
    accesses = [access(block) for block in blocks]
    policy.on_store_miss(accesses)
    excess = max(0, len(policy) + len(blocks) - policy.context.capacity_blocks)
    victims = [policy.evict() for _ in range(excess)]
    for each in accesses:
        policy.insert(each)
    return victims


def test_a_block_that_comes_back_counts_as_used_once() -> None:
    """A ghost of those used once enlarges their share, and still joins them: the paper would put it to the others."""
    policy = VLLMARCPolicy(TierContext(2))
    offer(policy, 1, 2)
    policy.touch(access(2))  # used often now
    assert offer(policy, 3) == [1]
    assert offer(policy, 1) == [3]  # the target is 1 now, and one block was used once: it gives the victim
    policy.touch(access(1))
    assert offer(policy, 3) == [2]  # nothing is used once, so the oldest of those used often goes


def test_all_misses_of_an_offer_count_before_its_first_eviction() -> None:
    """Two ghosts that come back together raise the target by two, so those used often give the victims."""
    policy = VLLMARCPolicy(TierContext(4))
    offer(policy, 1, 2, 3, 4)
    for block in (3, 4):
        policy.touch(access(block))
    assert offer(policy, 5, 6) == [1, 2]
    assert offer(policy, 7, 8) == [5, 6]
    assert offer(policy, 1, 2) == [7, 3]  # the target is 2: two used once give one, the remaining one is spared


def test_pinned_blocks_are_passed_over() -> None:
    """Where the list that should give the victim holds pinned blocks only, the other gives it; else nobody."""
    policy = VLLMARCPolicy(TierContext(2))
    offer(policy, 1, 2)
    policy.touch(access(2))
    assert policy.evict(lambda block: block == 1) == 2
    assert policy.evict(lambda block: block == 1) == -1


def test_ghost_lists_hold_as_many_blocks_as_the_cache() -> None:
    """With room for one block only the last victim is remembered: the one before it moves no target."""
    policy = VLLMARCPolicy(TierContext(1))
    for block in (1, 2, 3):
        offer(policy, block)
    policy.touch(access(3))
    offer(policy, 1)  # no ghost any more: 2 took its place
    assert policy._target_blocks == 0.0
    offer(policy, 3)  # a ghost of those used often lowers the target, which is 0 already
    offer(policy, 1)  # a ghost of those used once raises it
    assert policy._target_blocks == 1.0


def test_it_is_not_the_paper() -> None:
    """On the bundled trace the two versions of ARC find different numbers of blocks; each number is pinned."""
    trace = Trace.open("sample:conversation")
    hits = {}
    for name in ("arc", "vllm_arc"):
        engine = CacheConfig(
            1000, 4000, host_policy=PolicySpec(name), check_break_even=False, semantics=EngineSemantics.VLLM_0_32
        )
        hits[name] = int(simulate_cache(trace, engine, make_costs()).host_hit.sum())
    assert hits == {"arc": 10_020, "vllm_arc": 8_123}
