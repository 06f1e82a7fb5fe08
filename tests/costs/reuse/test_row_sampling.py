"""Rows that stand for more: how they are drawn, and that sums stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned_rows import make_rows

from autotune.costs.reuse.horizon import Labelled
from autotune.costs.reuse.sampling import draw, drawn

SKEWED = np.concatenate([np.ones(5000, np.int32), np.full(50, 2000, np.int32), np.zeros(100, np.int32)])


@given(
    st.lists(st.integers(0, 10**6), max_size=200).map(lambda some: np.array(some, np.int32)),
    st.integers(1, 250),
    st.integers(0, 2**32 - 1),
)
def test_a_draw_keeps_to_its_limit(blocks: np.ndarray, limit: int, seed: int) -> None:
    """Ascending rows with blocks, about as many as allowed, each with a chance above 0 and at most 1."""
    chosen, chances = draw(blocks, limit, np.random.default_rng(seed))
    assert (np.diff(chosen) > 0).all()
    assert (blocks[chosen] > 0).all()
    assert len(chosen) <= limit + 6.0 * limit**0.5
    assert ((chances > 0.0) & (chances <= 1.0)).all()
    if (blocks > 0).sum() <= limit:
        assert len(chosen) == (blocks > 0).sum()
        assert (chances == 1.0).all()


def test_what_was_drawn_stands_for_all() -> None:
    """Over many draws the blocks of a sample sum to the blocks of all rows, and the longest runs are in every one."""
    sums = []
    for seed in range(200):
        chosen, chances = draw(SKEWED, 1000, np.random.default_rng(seed))
        assert len(chosen) == pytest.approx(1000, abs=150)
        assert np.isin(np.arange(5000, 5050), chosen).all()
        sums.append((SKEWED[chosen] / chances).sum())
    assert np.mean(sums) == pytest.approx(SKEWED.sum(), rel=0.005)
    assert np.std(sums) < 0.005 * SKEWED.sum()


def test_a_longer_run_is_drawn_oftener_and_counts_for_less() -> None:
    """A run of 100 blocks has ten times the chance of a run of one block, and stands for ten times fewer runs."""
    blocks = np.resize(np.array([1, 100]), 20_000)
    chosen, chances = draw(blocks, 1000, np.random.default_rng(0))
    long, short = (chances[blocks[chosen] == size] for size in (100, 1))
    assert len(long) == pytest.approx(10 * len(short), rel=0.4)
    assert long[0] == pytest.approx(10 * short[0])


def test_few_rows_are_taken_as_they_are() -> None:
    """Where all may be used nothing is copied, and rows without blocks are left out."""
    rows = make_rows(500)
    assert drawn(rows, 500, np.random.default_rng(0)) is rows
    rows.n_blocks[:100] = 0
    assert len(drawn(rows, 500, np.random.default_rng(0))) == 400


def test_a_run_that_came_back_whole_still_does() -> None:
    """Blocks and reuses of a row grow by the same factor: no remainder of a block is left that never came back."""
    rows = make_rows(4000)
    some = drawn(rows, 700, np.random.default_rng(3))
    came_back = some.reused_within(1e9)
    assert len(some) == pytest.approx(700, abs=120)
    assert came_back.sum() == pytest.approx(rows.reused_within(1e9).sum(), rel=0.15)
    whole = came_back / some.n_blocks > 0.999
    assert whole.any()
    labelled = Labelled.of(np.zeros((1, int(whole.sum())), np.uint8), some.n_blocks[whole], came_back[whole])
    assert labelled.reused.all()
