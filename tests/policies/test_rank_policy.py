from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.decide.rank import NS_PER_S, decayed_frequency, rank_ns, rank_weight_s, value_term_ns
from autotune.core.eviction import BlockAccess, TierContext
from autotune.testing.policies import Round, accesses, chain, play, report, round_lists, shrink
from autotune_policies.rank.rank import RankPolicy
from autotune_policies.recency.lru import LRUPolicy

_VALUE_S = (0.01, 0.02, 0.05, 0.1, 0.2)
_CAPACITIES = st.sampled_from([1, 2, 3, 5, 8, 13, 40])
_PARAMS = st.fixed_dictionaries(
    {
        "lambda_recency": st.sampled_from([0.05, 0.3, 0.7, 1.0]),
        "tau_s": st.sampled_from([0.0, 1.0, 7.0, 1e6]),
        "half_life_s": st.sampled_from([0.0, 0.5, 5.0]),
        "cost_weight": st.sampled_from([0.0, 1.0]),
        "ghost_ratio": st.sampled_from([0.0, 0.3, 2.0]),
    }
)


def _access(block: int, time_s: float, sequence: int, parent: int = -1, depth_blocks: int = 0) -> BlockAccess:
    return BlockAccess(block, parent, depth_blocks, int(time_s * NS_PER_S), sequence)


@given(
    rounds=round_lists(),
    capacity_blocks=_CAPACITIES,
    half_life_s=st.sampled_from([0.0, 3.0]),
    cost_weight=st.sampled_from([0.0, 2.0]),
)
def test_lambda_one_is_lru(rounds: list[Round], capacity_blocks: int, half_life_s: float, cost_weight: float) -> None:
    """With λ = 1 every victim is LRU's, whatever the other parameters say."""
    context = TierContext(capacity_blocks, _VALUE_S)
    rank = RankPolicy(context, lambda_recency=1.0, half_life_s=half_life_s, cost_weight=cost_weight)
    assert play(rank, rounds) == play(LRUPolicy(context), rounds)


@dataclass
class _Spelled:
    """The rank rule spelled out: every rank computed from its formula, every victim found by looking at all leaves."""

    capacity_blocks: int
    params: dict[str, float]
    residents: dict[int, tuple[int, int]] = field(default_factory=dict)  # block → (rank, sequence)
    known: dict[int, tuple[float, int]] = field(default_factory=dict)  # block → (frequency, last access)
    ghosts: list[int] = field(default_factory=list)

    def use(self, access: BlockAccess) -> None:
        frequency, last_ns = self.known.get(access.block, (0.0, access.time_ns))
        decayed = decayed_frequency(frequency, (access.time_ns - last_ns) / 1e9, self.params["half_life_s"])
        self.known[access.block] = decayed + 1.0, access.time_ns
        weight_ns = rank_weight_s(self.params["lambda_recency"], self.params["tau_s"]) * 1e9
        value_s = _VALUE_S[min(access.depth_blocks, len(_VALUE_S) - 1)]
        term_ns = value_term_ns(weight_ns, self.params["cost_weight"], value_s)
        key = rank_ns(access.time_ns, weight_ns, decayed + 1.0, term_ns)
        self.residents[access.block] = key, access.sequence
        self.ghosts = [ghost for ghost in self.ghosts if ghost != access.block]

    def leave(self, block: int) -> None:
        del self.residents[block]
        limit = math.ceil(self.params["ghost_ratio"] * self.capacity_blocks)
        self.ghosts.append(block)
        while len(self.ghosts) > limit:
            del self.known[self.ghosts.pop(0)]

    def evict(self, pinned: set[int]) -> int:
        parents = {block // 2 for block in self.residents}
        leaves = [(key, block) for block, key in self.residents.items() if block not in parents | pinned]
        victim = min(leaves)[1] if leaves else -1
        if victim >= 0:
            self.leave(victim)
        return victim


@given(rounds=round_lists(), capacity_blocks=_CAPACITIES, params=_PARAMS)
def test_evicts_what_the_formula_says(rounds: list[Round], capacity_blocks: int, params: dict[str, float]) -> None:
    """The victim is the leaf with the smallest (rank, sequence), ghosts and pins included."""
    policy = RankPolicy(TierContext(capacity_blocks, _VALUE_S), **params)
    spelled = _Spelled(capacity_blocks, params)
    for r, request in zip(rounds, accesses(rounds), strict=True):
        for access in request:
            report(policy, access)
            spelled.use(access)
        pinned = set(chain(r.pinned_block))
        for victim in shrink(policy, capacity_blocks, pinned.__contains__):
            assert victim == spelled.evict(pinned)
        if r.removed_block in policy:
            policy.remove(r.removed_block)
            spelled.leave(r.removed_block)


@given(rounds=round_lists(), capacity_blocks=_CAPACITIES, params=_PARAMS)
def test_no_victim_leaves_a_block_that_continues_it(
    rounds: list[Round], capacity_blocks: int, params: dict[str, float]
) -> None:
    """At any time every resident's prefix is resident, when nothing is removed from outside."""
    policy = RankPolicy(TierContext(capacity_blocks, _VALUE_S), **params)
    for request in accesses(rounds):
        for access in request:
            report(policy, access)
        shrink(policy, capacity_blocks)
        assert all(block // 2 in policy for block in range(2, 64) if block in policy)


@given(rounds=round_lists(), block=st.integers(1, 63), capacity_blocks=_CAPACITIES, params=_PARAMS)
def test_would_admit_foresees_the_next_eviction(
    rounds: list[Round], block: int, capacity_blocks: int, params: dict[str, float]
) -> None:
    """Marginal admission refuses exactly the blocks that would leave in the round that brings them."""
    policy = RankPolicy(TierContext(capacity_blocks, _VALUE_S), admission=1.0, **params)
    play(policy, rounds)
    access = accesses([*rounds, Round(block)])[-1][0]
    if block in policy:
        return
    foreseen = policy.would_admit(access)
    tried = copy.deepcopy(policy)
    tried.insert(access)
    room_blocks = max(capacity_blocks, len(policy))  # pins may have left more residents than fit
    assert foreseen == (access.block not in shrink(tried, room_blocks))


@pytest.mark.parametrize(("half_life_s", "expected"), [(0.0, 3.0), (2.0, 0.25 + 0.5 + 1.0)])
def test_frequency_counts_accesses_and_decays_to_the_last(half_life_s: float, expected: float) -> None:
    """Three accesses two seconds apart count 3, or 1.75 with a half-life of two seconds."""
    policy = RankPolicy(TierContext(10), lambda_recency=0.5, tau_s=100.0, half_life_s=half_life_s)
    for i, time_s in enumerate((0.0, 2.0, 4.0)):
        report(policy, _access(1, time_s, i))
    # A block used once, but later by what the frequency is worth, ranks the same; 1 ms less, and it leaves first.
    level_s = 4.0 + 100.0 * math.log2(expected)
    for other, time_s in ((2, level_s - 1e-3), (3, level_s + 1e-3)):
        report(policy, _access(other, time_s, 10 + other))
    assert [policy.evict() for _ in range(3)] == [2, 1, 3]


def test_a_ghost_takes_its_frequency_back() -> None:
    """A block that left and returns counts its earlier uses; without ghosts it does not."""
    for ghost_ratio, victim in ((1.0, 3), (0.0, 1)):
        policy = RankPolicy(TierContext(2), tau_s=100.0, ghost_ratio=ghost_ratio)
        for i in range(3):
            report(policy, _access(1, float(i), i))
        assert policy.evict() == 1
        report(policy, _access(1, 5.0, 5))
        report(policy, _access(3, 6.0, 6))
        assert policy.evict() == victim


def test_two_hit_admits_ghosts_only() -> None:
    """A block is refused at its first access, remembered, and admitted at its second."""
    policy = RankPolicy(TierContext(4), admission=2.0)
    report(policy, _access(1, 0.0, 0))
    assert 1 not in policy
    report(policy, _access(1, 1.0, 1))
    assert 1 in policy


def test_two_hit_forgets_with_its_ghosts() -> None:
    """Ghosts are bounded: the block refused first is forgotten first."""
    policy = RankPolicy(TierContext(4), admission=2.0, ghost_ratio=0.5)
    for i in range(3):
        report(policy, _access(i, float(i), i))
    assert [policy.admits(_access(i, 9.0, 9)) for i in range(3)] == [False, True, True]


def test_coming_down_is_no_use() -> None:
    """A block that a nearer tier evicts keeps its frequency, and passes two-hit admission only after two uses."""
    policy = RankPolicy(TierContext(4), admission=2.0, tau_s=100.0)
    policy.refuse(_access(1, 0.0, 0))
    assert not policy.admits_demoted(_access(1, 1.0, 1))
    policy.refuse(_access(1, 2.0, 2))
    assert policy.admits_demoted(_access(1, 3.0, 3))
    policy.demote(_access(1, 3.0, 3))
    # It was used twice, which is worth 100 s; a block used once ranks below until then and above from then on.
    policy.insert(_access(2, 102.0, 4))
    policy.insert(_access(3, 104.0, 5))
    assert [policy.evict() for _ in range(3)] == [2, 1, 3]
