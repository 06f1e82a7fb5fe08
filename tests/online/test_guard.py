"""The guard: LRU or what was learned, from what the shadows of both cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.types import Arm
from autotune.online.guard import Guard
from autotune.online.settings import GuardSettings

SETTINGS = GuardSettings()
PERIODS = SETTINGS.min_periods
Period = tuple[float, float]


def one_form() -> Guard:
    """A guard over LRU and one learned rule."""
    return Guard(SETTINGS, (Arm.HAZARD,))


def after(guard: Guard, *periods: Period, ready: bool = True) -> Arm:
    """The way that is taken after these periods, each the seconds of LRU and of what was learned."""
    for lru_s, learned_s in periods:
        guard.period({Arm.LRU: lru_s, Arm.HAZARD: learned_s}, ready)
    return guard.arm


def after_both(guard: Guard, *periods: tuple[float, float, float]) -> Arm:
    """The same with both forms: seconds of LRU, of ranks by tick, and of fixed keys."""
    for costs_s in periods:
        guard.period(dict(zip(Arm, costs_s, strict=True)), True)
    return guard.arm


def test_it_starts_in_lru() -> None:
    """Nothing was compared yet, so nothing is obeyed."""
    guard = one_form()
    assert guard.arm is Arm.LRU
    assert guard.gain_frac(Arm.HAZARD) == 0.0


def test_a_clear_gain_is_taken_once_enough_periods_were_seen() -> None:
    """One period fewer than needed changes nothing, that many do, and the verdict says what was saved."""
    guard = one_form()
    gains = [(10.0, 8.0 + 0.01 * i) for i in range(PERIODS)]
    assert after(guard, *gains[:-1]) is Arm.LRU
    verdict = guard.period(dict(zip(Arm, gains[-1], strict=False)), True)
    assert (verdict.arm, verdict.changed) == (Arm.HAZARD, True)
    assert verdict.reason.startswith("what was learned saves +19.8")


def test_what_was_not_learned_yet_is_not_obeyed() -> None:
    """Without a learned rule its shadow means nothing, however cheap it looks."""
    assert after(one_form(), *[(10.0, 1.0)] * (3 * PERIODS), ready=False) is Arm.LRU


def test_a_gain_within_its_error_is_not_taken() -> None:
    """Large swings around nothing are no reason to change."""
    swings = [(10.0, 10.0 + (5.0 if i % 2 else -5.2)) for i in range(4 * PERIODS)]
    assert after(one_form(), *swings) is Arm.LRU


def test_a_gain_below_the_least_share_is_not_taken() -> None:
    """A sure gain of a tenth of a per cent is not worth the cache's content."""
    assert after(one_form(), *[(10.0, 9.99)] * (3 * PERIODS)) is Arm.LRU


def test_a_loss_brings_lru_back() -> None:
    """When the learned rule begins to lose, it is left after the periods that any change needs."""
    guard = one_form()
    assert after(guard, *[(10.0, 8.0)] * PERIODS) is Arm.HAZARD
    ways = [after(guard, (10.0, 16.0)) for _ in range(2 * PERIODS)]
    assert ways[: PERIODS - 1] == [Arm.HAZARD] * (PERIODS - 1)
    assert ways[-1] is Arm.LRU


def test_what_is_obeyed_stays_while_its_loss_is_within_the_error() -> None:
    """A mean just below zero beside large swings is no reason to throw the cache's content away."""
    settings = GuardSettings(discount=1.0, leave_errors=2.0)
    guard = Guard(settings, (Arm.HAZARD,))
    assert after(guard, *[(10.0, 8.0)] * PERIODS) is Arm.HAZARD
    assert after(guard, *[(10.0, 10.0 + (9.0 if i % 2 else -3.0)) for i in range(2 * PERIODS)]) is Arm.HAZARD


def test_no_two_changes_come_closer_than_the_periods_between_them() -> None:
    """However the costs flip, each way is kept for the least number of periods."""
    guard = one_form()
    costs = [{Arm.LRU: 10.0, Arm.HAZARD: 5.0 if i % 120 < 60 else 16.0} for i in range(1200)]
    changes = [i for i, costs_s in enumerate(costs) if guard.period(costs_s, True).changed]
    assert len(changes) > 2
    assert min(b - a for a, b in pairwise(changes)) >= PERIODS


def test_what_was_compared_of_another_rule_can_be_forgotten() -> None:
    """After that nothing is known, and the next change takes as many periods as the first."""
    guard = one_form()
    after(guard, *[(10.0, 8.0)] * (PERIODS - 1))
    guard.forget([Arm.HAZARD])
    assert guard.gain_frac(Arm.HAZARD) == 0.0
    assert after(guard, *[(10.0, 8.0)] * (PERIODS - 1)) is Arm.LRU
    assert after(guard, (10.0, 8.0)) is Arm.HAZARD


def test_a_period_without_any_work_changes_nothing() -> None:
    """Nothing saved of nothing is no gain, and no division by zero."""
    guard = one_form()
    assert after(guard, *[(0.0, 0.0)] * (3 * PERIODS)) is Arm.LRU
    assert guard.gain_frac(Arm.HAZARD) == 0.0


def test_of_two_good_forms_the_better_one_is_taken() -> None:
    """Both save; the one that saves more is obeyed."""
    assert after_both(Guard(SETTINGS), *[(10.0, 8.0, 7.0)] * PERIODS) is Arm.FIXED_KEY
    assert after_both(Guard(SETTINGS), *[(10.0, 7.0, 8.0)] * PERIODS) is Arm.HAZARD


def test_the_other_form_takes_over_only_where_it_is_better_by_more_than_its_error() -> None:
    """Equal on average, however much they swing, the present one stays; once the other wins surely, it is obeyed."""
    guard = Guard(SETTINGS)
    assert after_both(guard, *[(10.0, 7.0, 8.0)] * PERIODS) is Arm.HAZARD
    swings = [(10.0, 7.0, 7.0 + (2.0 if i % 2 else -2.0)) for i in range(4 * PERIODS)]
    assert after_both(guard, *swings) is Arm.HAZARD
    assert after_both(guard, *[(10.0, 7.0, 5.0)] * (8 * PERIODS)) is Arm.FIXED_KEY


def test_where_the_present_form_loses_the_other_is_taken_only_if_it_beats_lru() -> None:
    """A form that turned bad is left for the other one where that saves, else for LRU."""
    for other_s, expected in ((8.0, Arm.FIXED_KEY), (11.0, Arm.LRU)):
        guard = Guard(SETTINGS)
        assert after_both(guard, *[(10.0, 7.0, other_s)] * PERIODS) is Arm.HAZARD
        assert after_both(guard, *[(10.0, 19.0, other_s)] * (8 * PERIODS)) is expected


def test_a_form_that_loses_for_sure_is_hopeless_and_is_judged_anew_once_it_begins_again() -> None:
    """Only beside a form in force, and only beyond its error; forgotten, it is neither hopeless nor taken at once."""
    guard = Guard(SETTINGS)
    assert guard.hopeless() == ()
    after_both(guard, *[(10.0, 7.0, 9.0)] * PERIODS)
    assert (guard.arm, guard.hopeless()) == (Arm.HAZARD, (Arm.FIXED_KEY,))
    guard.forget([Arm.FIXED_KEY])
    assert guard.hopeless() == ()
    guard.period({Arm.LRU: 10.0, Arm.HAZARD: 7.0}, True)
    assert after_both(guard, *[(10.0, 7.0, 1.0)] * (PERIODS - 1)) is Arm.HAZARD
    assert after_both(guard, (10.0, 7.0, 1.0)) is Arm.FIXED_KEY


@given(st.lists(st.tuples(*[st.floats(0.0, 1e6)] * 2), min_size=2, max_size=60))
def test_the_mean_saving_is_antisymmetric_and_its_error_is_not_negative(periods: list[Period]) -> None:
    """Were LRU the learned rule, it would cost what it saves now, with the same error; the newest counts most."""
    guard, other = one_form(), one_form()
    after(guard, *periods)
    after(other, *((learned_s, lru_s) for lru_s, learned_s in periods))
    (mean, error), (back, same_error) = guard.saved_s(Arm.LRU, Arm.HAZARD), other.saved_s(Arm.LRU, Arm.HAZARD)
    assert mean == pytest.approx(-back)
    assert error >= 0.0
    assert error == pytest.approx(same_error)
    weights = [SETTINGS.discount**i for i in reversed(range(len(periods)))]
    saved = sum(w * (lru_s - learned_s) for w, (lru_s, learned_s) in zip(weights, periods, strict=True))
    assert mean == pytest.approx(saved / sum(weights), abs=1e-6)
