from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.decide.sketch import ROWS, sketch_hash, sketch_slot, sketch_width
from autotune.core.eviction import BlockAccess, EvictionPolicy, TierContext
from autotune.testing.policies import report, shrink
from autotune_policies.adaptive.arc import ARCPolicy
from autotune_policies.frequency.sketch import FrequencySketch
from autotune_policies.frequency.tinylfu import WTinyLFUPolicy
from autotune_policies.recency.fifo import FIFOPolicy
from autotune_policies.recency.s3fifo import S3FIFOPolicy
from autotune_policies.recency.sieve import SievePolicy

_FRESH = 1000


def _feed(policy: EvictionPolicy, blocks: list[int]) -> list[int]:
    """Requests of one block each; the victims."""
    victims: list[int] = []
    for i, block in enumerate(blocks):
        report(policy, BlockAccess(block, -1, 0, i, i))
        victims += shrink(policy, policy.context.capacity_blocks)
    return victims


def test_fifo_ignores_use() -> None:
    """Blocks leave in the order they came, used or not."""
    assert _feed(FIFOPolicy(TierContext(3)), [1, 2, 3, 1, 1, 4, 5]) == [1, 2]


def test_sieve_spares_what_was_used_since_the_hand_passed() -> None:
    """A used block loses its mark and stays where it is; the hand goes on from there the next time."""
    assert _feed(SievePolicy(TierContext(3)), [1, 2, 3, 1, 4, 5, 6]) == [2, 3, 4]


def test_s3fifo_lets_one_hit_wonders_pass_quickly() -> None:
    """Blocks used twice on probation survive a scan that is longer than the cache; blocks used once do not."""
    policy = S3FIFOPolicy(TierContext(10), small_frac=0.5)
    victims = _feed(policy, [1, 1, 1, 2, 2, 2, 3, *range(_FRESH, _FRESH + 50)])
    assert {1, 2} & set(victims) == set()
    assert 3 in victims


def test_s3fifo_ghosts_return_to_the_main_queue() -> None:
    """A block that is asked for again soon after it left goes where a scan cannot reach it."""
    scan = [*range(_FRESH, _FRESH + 12)]
    policy = S3FIFOPolicy(TierContext(10), small_frac=0.5)
    _feed(policy, [1, *scan])
    assert 1 not in policy
    assert 1 not in _feed(policy, [1, *range(2 * _FRESH, 2 * _FRESH + 5)])
    assert 1 in policy


def test_arc_grows_the_list_whose_ghosts_return() -> None:
    """A returning ghost of blocks seen once raises the target, one of blocks seen often lowers it."""
    policy = ARCPolicy(TierContext(4))
    _feed(policy, [1, 1, 2, 2, 3, 4, 5])  # T2 = {1, 2}; 3 left T1 for B1
    assert policy._target_blocks == 0.0
    _feed(policy, [3])
    assert policy._target_blocks == 1.0
    _feed(policy, [6, 7, 8, 9, 10, 11])
    ghost = next(iter(policy._often_ghosts))
    _feed(policy, [ghost])
    assert policy._target_blocks == 0.0


def test_arc_resists_a_scan() -> None:
    """Blocks that were used twice survive a scan much longer than the cache."""
    policy = ARCPolicy(TierContext(6))
    victims = _feed(policy, [1, 1, 2, 2, 3, 3, *range(_FRESH, _FRESH + 100)])
    assert {1, 2, 3} & set(victims) == set()


def test_arc_remembers_at_most_what_the_paper_allows() -> None:
    """All four lists together hold at most twice the capacity, T1 and its ghosts at most the capacity."""
    policy = ARCPolicy(TierContext(8))
    for block in [i * i % 61 for i in range(2000)] + [i % 30 for i in range(300)]:
        _feed(policy, [block])
        assert policy._known_blocks() <= 16
        assert len(policy._once) + len(policy._once_ghosts) <= 8


def test_wtinylfu_keeps_frequent_blocks_through_a_scan() -> None:
    """A block asked for often does not lose its place to blocks asked for once."""
    policy = WTinyLFUPolicy(TierContext(20))
    hot = [*range(10)]
    victims = _feed(policy, hot * 5 + [*range(_FRESH, _FRESH + 90)])
    assert set(hot) & set(victims) == set()


def test_wtinylfu_lets_a_more_frequent_block_in() -> None:
    """A block that is asked for more often than the main cache's victim replaces it."""
    policy = WTinyLFUPolicy(TierContext(10))
    _feed(policy, [*range(10)])
    _feed(policy, [50, 50, 50, 51, 52, 53])
    assert 50 in policy


@given(
    steps=st.lists(st.one_of(st.integers(0, 11), st.integers(-6, -2)), min_size=1, max_size=60),
    capacity_blocks=st.integers(1, 15),
)
@pytest.mark.parametrize("name", ["fifo", "lru", "sieve", "s3fifo", "arc"])
def test_a_request_of_new_blocks_is_its_blocks_in_turn(name: str, steps: list[int], capacity_blocks: int) -> None:
    """Inserting several new blocks and evicting afterwards ends like inserting and evicting one by one."""
    whole, in_turn = (registry.load(registry.POLICIES, name)(TierContext(capacity_blocks)) for _ in range(2))
    fresh, sequence = _FRESH, 0
    for step in steps:
        n_new = -step if step < 0 else 0
        blocks = [*range(fresh, fresh + n_new)] or [step]
        fresh += n_new
        victims = []
        for block in blocks:
            sequence += 1
            access = BlockAccess(block, -1, 0, sequence, sequence)
            report(whole, access)
            report(in_turn, access)
            victims += shrink(in_turn, capacity_blocks)
        assert shrink(whole, capacity_blocks) == victims


def test_sketch_never_underestimates_until_counters_are_halved() -> None:
    """Estimates are at least the true counts up to 15, and half of them after a halving."""
    sketch = FrequencySketch(capacity_blocks=8, period=200)
    for _ in range(9):
        for block in range(20):
            sketch.add(block)
    assert all(9 <= sketch.estimate(block) <= 15 for block in range(20))
    for block in range(20):
        sketch.add(block)
    assert all(5 <= sketch.estimate(block) <= 7 for block in range(20))


@given(block=st.integers(0, 2**31 - 1), capacity_blocks=st.integers(0, 10**6))
def test_sketch_slots_stay_in_their_row(block: int, capacity_blocks: int) -> None:
    """Each row's counter lies inside that row, and a row has a power of two of at least four counters per block."""
    width = sketch_width(capacity_blocks)
    assert width & (width - 1) == 0
    assert width >= 4 * capacity_blocks
    for row in range(ROWS):
        assert row * width <= sketch_slot(sketch_hash(block), row, width) < (row + 1) * width


def test_sketch_hash_spreads_neighbours() -> None:
    """Consecutive block ids fill the counters of every row about as evenly as chance would."""
    width = sketch_width(256)
    for row in range(ROWS):
        used = {sketch_slot(sketch_hash(block), row, width) for block in range(width)}
        assert 0.57 * width < len(used) < 0.70 * width  # 1 - 1/e = 0.632
