"""A write budget as time passes, held against what it promises."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.learned import WriteBucket, outranks
from autotune.core.units import NS_PER_S


def per_second(burst_s: float = 1e6) -> WriteBucket:
    """One block per second from time 0 on."""
    return WriteBucket(1000.0, burst_s, 1000, 0)


def test_it_begins_empty_and_gets_dearer_as_it_empties() -> None:
    """Nothing at first; a full reserve is free, one that empties asks for ever more, an empty one gives nothing."""
    bucket = per_second()
    assert bucket.price(0) == math.inf
    now_ns = 1000 * NS_PER_S  # the reserve is 50 blocks
    prices = [bucket.price(now_ns, n) for n in (0, 950, 975, 999, 1000)]
    assert prices[:2] == [1.0, 1.0]
    assert 1.0 < prices[2] < prices[3] < prices[4] == math.inf


def test_no_more_is_saved_up_than_its_burst() -> None:
    """After a long idle time, as many blocks are free as the burst holds."""
    bucket = per_second(burst_s=5.0)
    assert bucket.price(1000 * NS_PER_S, 4) < math.inf
    assert bucket.price(1000 * NS_PER_S, 5) == math.inf


def test_a_full_budget_is_free_however_long_it_runs() -> None:
    """After weeks the reserve is no more than what may be saved up, so a budget that nobody spent asks for nothing."""
    bucket = per_second(burst_s=3600.0)
    assert bucket.price(30 * 86_400 * NS_PER_S, 1) < 1.01


@given(blocks=st.lists(st.integers(0, 9), max_size=20), burst_s=st.sampled_from([0.0, 3.0, 1e6]))
def test_blocks_ahead_count_as_if_they_were_written(blocks: list[int], burst_s: float) -> None:
    """What is asked for before writing is what is answered after writing, and a write can be taken back."""
    ahead, written = per_second(burst_s), per_second(burst_s)
    now_ns = 0
    for n in blocks:
        now_ns += 2 * NS_PER_S
        expected = ahead.price(now_ns, n), ahead.has_credit(now_ns, n)
        for _ in range(n):
            written.write(now_ns)
        assert (written.price(now_ns), written.has_credit(now_ns)) == expected
        written.write(now_ns)
        written.take_back()
        ahead.write(now_ns, n)
        if n:
            assert written.price(now_ns) == ahead.price(now_ns)


def test_the_price_is_a_factor_on_the_victim() -> None:
    """A block pays for its write from so many times the victim's rank on; at an infinite price never."""
    assert outranks(20, 10, 2.0)
    assert not outranks(19, 10, 2.0)
    assert not outranks(2**60, 1, math.inf)
    assert not outranks(2**60, 0, math.inf)
