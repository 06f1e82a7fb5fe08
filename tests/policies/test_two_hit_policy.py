from __future__ import annotations

from autotune.core.eviction import BlockAccess, TierContext
from autotune.testing.policies import report
from autotune_policies.admission.two_hit import TwoHitPolicy


def _access(block: int, sequence: int) -> BlockAccess:
    return BlockAccess(block, -1, 0, sequence, sequence)


def _feed(policy: TwoHitPolicy, blocks: list[int]) -> None:
    for sequence, block in enumerate(blocks):
        report(policy, _access(block, sequence))


def test_admits_at_the_threshold() -> None:
    """The access that reaches the threshold brings the block in, no earlier one does."""
    policy = TwoHitPolicy(TierContext(9), threshold=3)
    _feed(policy, [1, 1, 2])
    assert 1 not in policy
    _feed(policy, [1])
    assert 1 in policy
    assert 2 not in policy


def test_threshold_one_is_lru() -> None:
    """With threshold 1 every block comes in and the least recently used leaves."""
    policy = TwoHitPolicy(TierContext(3), threshold=1)
    _feed(policy, [1, 2, 3, 1])
    assert [policy.evict() for _ in range(3)] == [2, 3, 1]


def test_a_block_that_left_is_still_known() -> None:
    """Counts outlast residency: a block that was evicted returns at its next access."""
    policy = TwoHitPolicy(TierContext(9))
    _feed(policy, [1, 1])
    assert policy.evict() == 1
    assert policy.admits(_access(1, 9))


def test_tracker_forgets_the_longest_unused() -> None:
    """A full tracker drops the block whose last access is longest ago, counts included."""
    policy = TwoHitPolicy(TierContext(9), tracker_blocks=2)
    _feed(policy, [1, 2, 1, 3])  # 1 came in at its second access; 2 was dropped for 3
    assert [policy.admits(_access(block, 9)) for block in (2, 3)] == [False, True]
    assert 1 in policy


def test_coming_down_is_no_use() -> None:
    """A victim of the nearer tier needs as many uses as any block, and coming down is not one of them."""
    policy = TwoHitPolicy(TierContext(9))
    policy.refuse(_access(1, 0))
    assert policy.admits(_access(1, 1))
    assert not policy.admits_demoted(_access(1, 1))
    policy.refuse(_access(1, 2))
    assert policy.admits_demoted(_access(1, 3))
    policy.demote(_access(1, 3))
    assert 1 in policy
