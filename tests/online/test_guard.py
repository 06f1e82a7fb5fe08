"""The guard: which way to run, from what the shadows of each way cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.online.guard import Arm, Guard
from autotune.online.settings import GuardSettings

SETTINGS = GuardSettings()
PERIODS = SETTINGS.min_periods


def after(guard: Guard, *seconds: tuple[float, float, float], ready: bool = True) -> Arm:
    """The way that is taken after these periods."""
    for period in seconds:
        guard.period(period, ready)
    return guard.arm


def test_it_starts_as_the_engine_does_by_itself() -> None:
    """Nothing was compared yet, so nothing is changed."""
    assert Guard(SETTINGS).arm is Arm.STOCK


def test_a_clear_gain_is_taken_once_enough_periods_were_seen() -> None:
    """One period fewer than needed changes nothing, that many do."""
    guard = Guard(SETTINGS)
    gains = [(10.0, 10.0, 8.0 + 0.01 * i) for i in range(PERIODS)]
    assert after(guard, *gains[:-1]) is Arm.STOCK
    assert after(guard, gains[-1]) is Arm.LEARNED


def test_the_store_mode_alone_is_taken_where_it_gains_and_learning_does_not() -> None:
    """LRU with other stores is a way of its own."""
    guard = Guard(SETTINGS)
    assert after(guard, *[(10.0, 9.0 + 0.01 * i, 10.5) for i in range(PERIODS)]) is Arm.STAGED


def test_what_was_not_learned_yet_is_not_obeyed() -> None:
    """Without a learned rule its shadow means nothing, however cheap it looks."""
    assert after(Guard(SETTINGS), *[(10.0, 10.0, 1.0)] * (3 * PERIODS), ready=False) is Arm.STOCK


def test_a_gain_within_its_error_is_not_taken() -> None:
    """Large swings around nothing are no reason to change."""
    swings = [(10.0, 10.0, 10.0 + (5.0 if i % 2 else -5.2)) for i in range(4 * PERIODS)]
    assert after(Guard(SETTINGS), *swings) is Arm.STOCK


def test_a_gain_below_the_least_share_is_not_taken() -> None:
    """A sure gain of a tenth of a per cent is not worth the cache's content."""
    assert after(Guard(SETTINGS), *[(10.0, 10.0, 9.99)] * (3 * PERIODS)) is Arm.STOCK


def test_a_loss_brings_back_the_engines_own_way() -> None:
    """When the learned rule begins to lose, it is left after the periods that any change needs."""
    guard = Guard(SETTINGS)
    after(guard, *[(10.0, 10.0, 8.0)] * PERIODS)
    assert guard.arm is Arm.LEARNED
    ways = [after(guard, (10.0, 10.0, 16.0)) for _ in range(2 * PERIODS)]
    assert ways[: PERIODS - 1] == [Arm.LEARNED] * (PERIODS - 1)
    assert ways[-1] is Arm.STOCK


def test_no_two_changes_come_closer_than_the_periods_between_them() -> None:
    """However the costs flip, each way is kept for the least number of periods."""
    guard = Guard(SETTINGS)
    changes = [i for i in range(1200) if guard.period((10.0, 10.0, 5.0 if i % 120 < 60 else 16.0), True).changed]
    assert len(changes) > 2
    assert min(b - a for a, b in pairwise(changes)) >= PERIODS


def test_under_a_write_budget_the_way_that_stores_everything_is_never_taken() -> None:
    """With STAGED as the safest way, stock LRU is not gone back to."""
    guard = Guard(SETTINGS, Arm.STAGED)
    assert after(guard, *[(1.0, 10.0, 20.0)] * (3 * PERIODS)) is Arm.STAGED


def test_a_period_without_any_work_changes_nothing() -> None:
    """Nothing saved of nothing is no gain, and no division by zero."""
    guard = Guard(SETTINGS)
    assert after(guard, *[(0.0, 0.0, 0.0)] * (3 * PERIODS)) is Arm.STOCK
    assert guard.gain_frac(Arm.LEARNED) == 0.0


@given(
    st.lists(st.tuples(*[st.floats(0.0, 1e6)] * 3), min_size=2, max_size=60),
    st.sampled_from(list(Arm)),
    st.sampled_from(list(Arm)),
)
def test_differences_are_antisymmetric_and_errors_are_not_negative(
    periods: list[tuple[float, float, float]], one: Arm, other: Arm
) -> None:
    """What one way costs more than another is what that one costs less, with the same error."""
    guard = Guard(SETTINGS)
    after(guard, *periods)
    (there, error), (back, same_error) = guard.difference_s(one, other), guard.difference_s(other, one)
    assert there == pytest.approx(-back)
    assert error >= 0.0
    assert error == pytest.approx(same_error)
