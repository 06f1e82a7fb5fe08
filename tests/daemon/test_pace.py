"""The speed of the machine is that of prefills against the fit of one moment, whatever is computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.access import AccessRecord
from autotune.core.estimates import Estimate
from autotune.core.telemetry.wire import Direction, TransferRecord
from autotune.core.types import Tier
from autotune.costs.model import PREFILL_FIXED, PREFILL_LINEAR, PREFILL_QUADRATIC
from autotune.daemon.bounds import Bounds
from autotune.daemon.pace import TimePromise, Yardstick, pace, with_prefills
from autotune.daemon.windows import Interval, Window

CHUNK_TOKENS = 16
THEN = Yardstick(fixed_s=0.004, linear_s=1e-4, quadratic_s=2e-8)


def prefill(depth_blocks: int, tokens: int, slowness: float = 1.0, tier: Tier | None = None) -> AccessRecord:
    """A run that was computed, by a machine so much slower than then."""
    depths = range(depth_blocks * CHUNK_TOKENS, depth_blocks * CHUNK_TOKENS + tokens)
    attended = sum(depth + 1 for depth in (depths[0], depths[-1])) * tokens / 2
    seconds = slowness * (THEN.fixed_s + THEN.linear_s * tokens + THEN.quadratic_s * attended)
    blocks = tuple(range(-(-tokens // CHUNK_TOKENS)))
    return AccessRecord(0.0, 0, 1, -1, blocks, depth_blocks, tokens, tier, 0, seconds)


def window(*rounds: list[AccessRecord]) -> Window:
    """One interval per round."""
    return Window(tuple(with_prefills(Interval(1.0), records, CHUNK_TOKENS) for records in rounds))


RUNS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 4000)), min_size=1, max_size=5)


@given(st.lists(RUNS, min_size=8, max_size=20), st.lists(RUNS, min_size=8, max_size=20), st.floats(0.2, 5.0))
def test_speed_is_told_apart_from_what_is_computed(
    before: list[list[tuple[int, int]]], after: list[list[tuple[int, int]]], slowness: float
) -> None:
    """Other runs at other depths are no other speed, and another speed is measured exactly."""
    then = pace(window(*([prefill(*run) for run in each] for each in before)), THEN, 0.95)
    now = pace(window(*([prefill(*run, slowness) for run in each] for each in after)), THEN, 0.95)
    assert then is not None and now is not None
    assert then.value == pytest.approx(1.0)
    assert now.value == pytest.approx(slowness)


def test_only_prefills_that_were_timed_count() -> None:
    """What was found, what has no time, and copies say nothing of how fast the machine computes."""
    others = [
        prefill(0, 64, tier=Tier.HOST),
        replace(prefill(0, 64), seconds=0.0),
        TransferRecord(0.0, 0, Direction.LOAD, 1, 1.0),
    ]
    interval = with_prefills(Interval(1.0), others, CHUNK_TOKENS)
    assert (interval.prefill_s, interval.prefill_tokens, interval.prefill_pairs) == (0.0, 0.0, 0.0)
    assert pace(Window((interval,) * 20), THEN, 0.95) is None
    assert pace(Window((Interval(1.0),) * 20), THEN, 0.95) is None


def test_several_engines_are_one_machine() -> None:
    """Prefills of both count in an interval that they share."""
    one, two = (with_prefills(Interval(1.0), [prefill(0, n)], CHUNK_TOKENS) for n in (64, 32))
    assert one.beside(two).prefill_tokens == 96.0
    assert one.beside(Interval(1.0)).prefill_tokens is None


def test_bounds_of_a_promise_grow_by_what_is_not_known_of_the_speeds() -> None:
    """Exact speeds leave bounds in proportion; one that is known to a tenth adds a tenth on either side."""
    exact = TimePromise(0.10, 0.08, 0.12, THEN, Bounds(1.0, 1.0, 1.0))
    slow = window(*([prefill(3, 64, 2.0)] for _ in range(16)))
    kept = exact.at_the_speed_of(slow, 0.95)
    assert (kept.value_s, kept.low_s, kept.high_s) == pytest.approx((0.20, 0.16, 0.24))
    vague = replace(exact, pace=Bounds(1.0, 0.9, 1.1)).at_the_speed_of(slow, 0.95)
    assert (vague.value_s, vague.low_s, vague.high_s) == pytest.approx((0.20, 0.144, 0.264))


def test_a_promise_of_unknown_speed_stays() -> None:
    """Where then or now nothing was measured, the promise is as it was."""
    promise = TimePromise(0.10, 0.08, 0.12, THEN, None)
    slow = window(*([prefill(3, 64, 2.0)] for _ in range(16)))
    assert promise.at_the_speed_of(slow, 0.95) == promise
    known = replace(promise, pace=Bounds(1.0, 1.0, 1.0))
    assert known.at_the_speed_of(Window(()), 0.95) == known


def test_a_yardstick_is_what_was_fitted() -> None:
    """Estimates are taken by their names; a table has no fixed part, which then counts for nothing."""
    linear = Estimate(PREFILL_LINEAR, 1e-4, 0.0, 1.0, "s/token", 9, 0.0, "a test")
    quadratic = Estimate(PREFILL_QUADRATIC, 2e-8, 0.0, 1.0, "s/token pair", 9, 0.0, "a test")
    fixed = Estimate(PREFILL_FIXED, 0.004, 0.0, 1.0, "s", 9, 0.0, "a test")
    assert Yardstick.of([quadratic, fixed, linear]) == THEN
    assert Yardstick.of([linear, quadratic]) == replace(THEN, fixed_s=0.0)
