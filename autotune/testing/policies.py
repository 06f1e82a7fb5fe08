"""What every eviction policy must do, whatever it decides.

Subclass :class:`PolicyConformance` in a test file, say how the policy is made, and pytest runs the rest::

    class TestMyPolicy(PolicyConformance):
        def make_policy(self, context):
            return MyPolicy(context, half_life_s=60.0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.core.eviction import NEVER, BlockAccess, EvictionPolicy, TierContext, nothing_pinned

_N_BLOCKS = 64
_NS_PER_REQUEST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Round:
    """One request to a tier.

    Blocks form a binary tree: block ``n`` continues block ``n // 2``, and block 1 is the first of every prompt.

    Attributes:
        block: Last block of the prompt; the request uses it and all that it continues.
        pinned_block: Last block of the prompt of a running request, whose blocks may not leave; 0 if none runs.
        removed_block: Block that afterwards moves to another tier if it is here; 0 for none.
    """

    block: int
    pinned_block: int = 0
    removed_block: int = 0


def chain(block: int) -> list[int]:
    """A block and all that it continues, deepest first."""
    blocks = []
    while block > 0:
        blocks.append(block)
        block //= 2
    return blocks


def accesses(rounds: Iterable[Round]) -> list[list[BlockAccess]]:
    """The accesses of each round, deepest first, with true next uses."""
    requests = [chain(r.block) for r in rounds]
    next_use: dict[int, int] = {}
    uses: list[list[int]] = []
    for index in reversed(range(len(requests))):
        uses.append([next_use.get(block, NEVER) for block in requests[index]])
        next_use.update(dict.fromkeys(requests[index], index))
    uses.reverse()
    sequence = 0
    result: list[list[BlockAccess]] = []
    for index, blocks in enumerate(requests):
        result.append([])
        for block, use in zip(blocks, uses[index], strict=True):
            sequence += 1
            parent, depth = block // 2 or -1, block.bit_length() - 1
            result[-1].append(BlockAccess(block, parent, depth, index * _NS_PER_REQUEST, sequence, use, index))
    return result


def report(policy: EvictionPolicy, access: BlockAccess) -> None:
    """Tell a policy of one access, in the order of calls that the contract states."""
    if access.block in policy:
        policy.touch(access)
    elif policy.admits(access):
        policy.insert(access)
    else:
        policy.refuse(access)


def shrink(policy: EvictionPolicy, capacity_blocks: int, pinned: Callable[[int], bool] = nothing_pinned) -> list[int]:
    """Evict until the policy's residents fit or all are pinned; the victims, and -1 at the end if it was the latter."""
    victims: list[int] = []
    while len(policy) > capacity_blocks and -1 not in victims:
        victims.append(policy.evict(pinned))
    return victims


def play(policy: EvictionPolicy, rounds: list[Round]) -> list[int]:
    """Play rounds to a policy as a tier does; all victims in order."""
    victims: list[int] = []
    for r, request in zip(rounds, accesses(rounds), strict=True):
        for access in request:
            report(policy, access)
        victims += shrink(policy, policy.context.capacity_blocks, set(chain(r.pinned_block)).__contains__)
        if r.removed_block in policy:
            policy.remove(r.removed_block)
    return victims


def round_lists() -> st.SearchStrategy[list[Round]]:
    """Streams of requests with reuse, running requests and removals."""
    last = st.integers(1, _N_BLOCKS - 1)
    some = st.one_of(st.just(0), st.just(0), last)
    return st.lists(st.builds(Round, last, some, some), min_size=1, max_size=50)


_capacities = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40])
# The methods are inherited by one test class per policy, which is what the suite is for.
_inherited = settings(suppress_health_check=[HealthCheck.differing_executors], max_examples=25)


class PolicyConformance(ABC):
    """Tests that each policy's test class inherits."""

    @abstractmethod
    def make_policy(self, context: TierContext) -> EvictionPolicy:
        """A fresh policy for a tier."""

    def _make(self, capacity_blocks: int) -> EvictionPolicy:
        return self.make_policy(TierContext(capacity_blocks, (1.0, 2.0, 4.0, 8.0)))

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_residents_are_those_that_came_and_did_not_leave(self, rounds: list[Round], capacity_blocks: int) -> None:
        """Length and membership agree at any time with what was inserted, evicted and removed."""
        policy = self._make(capacity_blocks)
        expected: set[int] = set()
        for r, request in zip(rounds, accesses(rounds), strict=True):
            for access in request:
                expected |= {access.block} if access.block in policy or policy.admits(access) else set()
                report(policy, access)
                assert access.block in policy or access.block not in expected
                assert len(policy) == len(expected)
            expected -= set(shrink(policy, capacity_blocks, set(chain(r.pinned_block)).__contains__))
            if r.removed_block in policy:
                policy.remove(r.removed_block)
                expected.remove(r.removed_block)
            assert {block for block in range(_N_BLOCKS) if block in policy} == expected
            assert len(policy) == len(expected)

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_a_victim_is_an_idle_resident(self, rounds: list[Round], capacity_blocks: int) -> None:
        """A victim was resident, is not pinned and is forgotten; -1 comes if and only if every resident is pinned."""
        policy = self._make(capacity_blocks)
        for r, request in zip(rounds, accesses(rounds), strict=True):
            for access in request:
                report(policy, access)
            pinned = set(chain(r.pinned_block))
            victim = 0
            while len(policy) > capacity_blocks and victim >= 0:
                before = {block for block in range(_N_BLOCKS) if block in policy}
                victim = policy.evict(pinned.__contains__)
                assert victim in before - pinned if before - pinned else victim == -1
                assert victim not in policy
            assert len(policy) <= capacity_blocks or victim == -1

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_decisions_repeat(self, rounds: list[Round], capacity_blocks: int) -> None:
        """The same calls lead to the same victims."""
        assert play(self._make(capacity_blocks), rounds) == play(self._make(capacity_blocks), rounds)

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_asking_for_admission_changes_nothing(self, rounds: list[Round], capacity_blocks: int) -> None:
        """A policy that is asked more often whether it would admit a block decides as one that is not."""
        asked = self._make(capacity_blocks)
        victims: list[int] = []
        for r, request in zip(rounds, accesses(rounds), strict=True):
            for access in request:
                if access.block not in asked:
                    asked.admits(access)
                    asked.admits_demoted(access)
                report(asked, access)
            victims += shrink(asked, capacity_blocks, set(chain(r.pinned_block)).__contains__)
            if r.removed_block in asked:
                asked.remove(r.removed_block)
        assert victims == play(self._make(capacity_blocks), rounds)

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_evicts_to_empty(self, rounds: list[Round], capacity_blocks: int) -> None:
        """Evicting as often as there are residents names each of them once and leaves none; then comes -1."""
        policy = self._make(capacity_blocks)
        play(policy, rounds)
        residents = {block for block in range(_N_BLOCKS) if block in policy}
        victims = [policy.evict() for _ in residents]
        assert sorted(victims) == sorted(residents)
        assert len(policy) == 0
        assert policy.evict() == -1

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_nothing_leaves_while_all_is_pinned(self, rounds: list[Round], capacity_blocks: int) -> None:
        """With every resident pinned an eviction answers -1 and every block stays."""
        policy = self._make(capacity_blocks)
        play(policy, rounds)
        residents = {block for block in range(_N_BLOCKS) if block in policy}
        assert policy.evict(lambda block: True) == -1
        assert {block for block in range(_N_BLOCKS) if block in policy} == residents

    @_inherited
    @given(rounds=round_lists(), capacity_blocks=_capacities)
    def test_takes_victims_of_the_nearer_tier(self, rounds: list[Round], capacity_blocks: int) -> None:
        """Blocks that come down from a nearer tier, after their use was refused here, become residents like others."""
        policy = self._make(capacity_blocks)
        for request in accesses(rounds):
            for access in request:
                if access.block in policy:
                    policy.touch(access)
                else:
                    policy.refuse(access)
            came = request[0]
            if came.block not in policy and policy.admits_demoted(came):
                policy.demote(came)
                assert came.block in policy
            shrink(policy, capacity_blocks)
            assert len(policy) <= capacity_blocks
