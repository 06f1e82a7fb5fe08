"""The two scores set by hand decide as their formulas say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.eviction import BlockAccess, TierContext
from autotune.testing.policies import Round, accesses, report, round_lists, shrink
from autotune_policies.cost_aware.marconi import MarconiPolicy
from autotune_policies.frequency.evoke import EvokePolicy

_SECOND_NS = 1_000_000_000


def _access(block: int, request: int, *, parent: int = -1, depth: int = 0) -> BlockAccess:
    return BlockAccess(block, parent, depth, request * _SECOND_NS, request * 100 + 99 - block, request=request)


class _ScanningEvoke:
    """The score's definition: a scan over all residents for the smallest."""

    def __init__(self, half_life_touches: float, *, remembers: bool) -> None:
        self.half_life_touches = half_life_touches
        self.remembers = remembers
        self.hits: dict[int, int] = {}
        self.last: dict[int, tuple[int, int]] = {}
        self.left: dict[int, int] = {}

    def use(self, access: BlockAccess) -> None:
        before = self.hits.get(access.block, self.left.pop(access.block, -1))
        self.hits[access.block] = before + 1
        self.last[access.block] = (access.request, access.sequence)

    def evict(self, request: int) -> int:
        def rank(block: int) -> tuple[float, tuple[int, int]]:
            recency = 2.0 ** (-(request - self.last[block][0]) / self.half_life_touches)
            return round(0.5 * recency + 0.5 * (1.0 - 2.0 ** -self.hits[block]), 12), self.last[block]

        victim = min(self.hits, key=rank)
        if self.remembers:
            self.left[victim] = self.hits[victim]
        del self.hits[victim], self.last[victim]
        return victim


@given(
    rounds=round_lists(),
    capacity=st.integers(1, 12),
    half_life=st.sampled_from([1.0, 3.7, 64.0]),
    remembers=st.booleans(),
)
def test_evoke_decides_as_a_scan_over_all_residents(
    rounds: list[Round], capacity: int, half_life: float, remembers: bool
) -> None:
    """The queues by hits give the very victims of a scan with the published formula, with ghosts and without."""
    params = {"half_life_touches": half_life, "ghost_ratio": 100.0 if remembers else 0.0}
    policy = EvokePolicy(TierContext(capacity), **params)
    scan = _ScanningEvoke(half_life, remembers=remembers)
    for request, asked in enumerate(accesses(rounds)):
        for access in asked:
            report(policy, access)
            scan.use(access)
        while len(policy) > capacity:
            assert policy.evict() == scan.evict(request)


def test_evoke_weighs_one_hit_against_age() -> None:
    """One hit counts a quarter, so a block used twice outlives a new one for just under a half-life of 64 touches.

    Scores at age a: ``.5 * 2^(-a/64) + .25`` for the one, ``.5`` for the new one; they meet at a = 64.
    """
    for age, victim in ((63, 1), (65, 2)):
        policy = EvokePolicy(TierContext(3))
        report(policy, _access(2, 0))
        report(policy, _access(2, 1))
        for request in range(2, 1 + age):
            report(policy, _access(3, request))
        policy.remove(3)
        report(policy, _access(1, 1 + age))
        assert policy.evict() == victim


def test_marconi_without_weight_is_lru_over_leaves() -> None:
    """With α = 0 the least recently used leaf goes, whatever it saves."""
    policy = MarconiPolicy(TierContext(3, (1.0, 5.0, 9.0)), alpha=0.0)
    report(policy, _access(2, 0, parent=1, depth=1))
    report(policy, _access(1, 0))
    report(policy, _access(3, 1))
    assert [policy.evict() for _ in range(3)] == [2, 1, 3]


def test_marconi_trades_recency_for_what_a_hit_saves() -> None:
    """A block at full efficiency outlives one at none for α times the span, and not longer."""
    for age, victim in ((4, 3), (6, 2)):
        policy = MarconiPolicy(TierContext(3, (1.0, 9.0)), alpha=0.5, span_s=10.0)
        report(policy, _access(2, 0, parent=1, depth=1))
        report(policy, _access(1, 0))
        report(policy, _access(3, age))
        assert policy.evict() == victim


@given(rounds=round_lists(), capacity=st.integers(1, 12))
def test_marconi_keeps_prefixes(rounds: list[Round], capacity: int) -> None:
    """No block stays behind without the one that it continues."""
    policy = MarconiPolicy(TierContext(capacity, (1.0, 2.0, 4.0)), alpha=2.0, span_s=5.0)
    for asked in accesses(rounds):
        for access in asked:
            report(policy, access)
        shrink(policy, capacity)
        assert all(block // 2 in policy for block in range(2, 64) if block in policy)
