"""A block that is renewed is recent, but was not used once more."""

from __future__ import annotations

import pytest

from autotune.core import registry
from autotune.core.eviction import BlockAccess, EvictionPolicy, TierContext
from autotune_policies.rank.rank import RankPolicy


def policy_of(name: str, capacity_blocks: int, **params: float) -> EvictionPolicy:
    """The plain policy of that name, empty."""
    policy: EvictionPolicy = registry.load(registry.POLICIES, name)(TierContext(capacity_blocks), **params)
    return policy


def access(block: int, sequence: int, time_s: int = 0, next_use: int = 1) -> BlockAccess:
    """An access to a block that stands alone."""
    return BlockAccess(block, -1, 0, time_s * 1_000_000_000, sequence, next_use)


def victims(policy: EvictionPolicy) -> list[int]:
    """All residents in the order in which they leave."""
    return [policy.evict() for _ in range(len(policy))]


def filled(name: str, **params: float) -> EvictionPolicy:
    """Blocks 1, 2 and 3 came in, in this order."""
    policy = policy_of(name, 3, **params)
    for block in (1, 2, 3):
        policy.insert(access(block, block))
    return policy


@pytest.mark.parametrize("name", registry.names(registry.POLICIES))
def test_residents_stay_the_same(name: str) -> None:
    """Whatever the policy does with a renewal, nobody comes or goes."""
    policy = filled(name)
    policy.renew(access(1, 4, time_s=1))
    assert [block in policy for block in (1, 2, 3)] == [True] * 3
    assert sorted(victims(policy)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "params", "order"),
    [
        ("lru", {}, [2, 3, 1]),
        ("two_hit", {}, [2, 3, 1]),
        ("rank", {"lambda_recency": 1.0}, [2, 3, 1]),
        ("lfu", {}, [2, 3, 1]),
        ("arc", {}, [2, 3, 1]),
        ("vllm_arc", {}, [2, 3, 1]),
        ("fifo", {}, [1, 2, 3]),
        ("sieve", {}, [1, 2, 3]),
    ],
)
def test_order_after_a_renewal(name: str, params: dict[str, float], order: list[int]) -> None:
    """Where recency counts the block leaves last; where only use moves a block, nothing moved."""
    policy = filled(name, **params)
    policy.renew(access(1, 4))
    assert victims(policy) == order


def test_frequency_stays_and_recency_moves() -> None:
    """The rank after a renewal is the later time alone: log2 of one access is 0, of two it would be 1."""
    context, params = TierContext(3), {"lambda_recency": 0.5, "tau_s": 100.0}
    renewed, touched = RankPolicy(context, **params), RankPolicy(context, **params)
    for policy in (renewed, touched):
        policy.insert(access(1, 1))
    renewed.renew(access(1, 2, time_s=7))
    touched.touch(access(1, 2, time_s=7))
    assert renewed.next_victim_rank(lambda _: False) == 7_000_000_000
    assert touched.next_victim_rank(lambda _: False) == 107_000_000_000


def test_uses_in_the_tracker_stay() -> None:
    """A block that came down and was renewed has been asked for no more than before, so it does not come in again."""
    policy = policy_of("two_hit", 3)
    policy.demote(access(1, 1))
    policy.renew(access(1, 2))
    assert policy.evict() == 1
    assert not policy.admits(access(1, 3))


@pytest.mark.parametrize("name", ["arc", "vllm_arc"])
def test_a_renewed_block_was_used_once(name: str) -> None:
    """It leaves before a block that was used twice, although it is more recent."""
    policy = policy_of(name, 2)
    policy.insert(access(1, 1))
    policy.insert(access(2, 2))
    policy.touch(access(1, 3))
    policy.renew(access(2, 4))
    assert policy.evict() == 2
