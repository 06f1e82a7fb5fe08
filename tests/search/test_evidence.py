"""How often blocks come back, what one more byte saves, and the prices that follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.policy import ReuseStep
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.core.units import GIB
from autotune.search.choice import Split, split_in_time
from autotune.search.evidence import marginal_values, prices, reuse_steps
from autotune.search.problem import Problem, turnover_s
from autotune.search.result import MarginalValue
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.testing.streams import Ask, make_trace, traces

A, B, C = 1, 2, 3
SIX = make_trace([Ask(0, [A]), Ask(1, [B]), Ask(2, [A]), Ask(3, [A]), Ask(10, [B]), Ask(20, [C])])
VALUES = st.floats(-1e3, 1e3)


@pytest.mark.parametrize(
    ("horizon_s", "steps"),
    [
        # Known up to 15 s. First accesses: A back after 2 s, B after 9. Second: A after 1, B never. Third: A never.
        (5.0, [(1.0, 0.5, 2), (2.0, 0.5, 2), (3.0, 0.0, 1)]),
        # Known up to 11 s; B's 9 s are just within it.
        (9.0, [(1.0, 1.0, 2), (2.0, 0.5, 2), (3.0, 0.0, 1)]),
        # Known up to 2.5 s.
        (17.5, [(1.0, 1.0, 2), (2.0, 1.0, 1)]),
        (21.0, []),
    ],
)
def test_reuse_by_hand(horizon_s: float, steps: list[tuple[float, float, int]]) -> None:
    """Six accesses to three blocks, counted by hand; what is too late to be known does not count."""
    expected = tuple(ReuseStep(frequency_min=f, probability=p, n_samples=n) for f, p, n in steps)
    assert reuse_steps(SIX, horizon_s) == expected


def test_reuse_by_many_accesses() -> None:
    """A block asked for every second comes back at every count; counts from 3, 5, 9 and 17 share a step."""
    trace = make_trace([Ask(float(i), [A]) for i in range(41)])
    found = [(step.frequency_min, step.probability, step.n_samples) for step in reuse_steps(trace, 1.0)]
    assert found == [(1, 1.0, 1), (2, 1.0, 1), (3, 1.0, 2), (5, 1.0, 4), (9, 1.0, 8), (17, 1.0, 24)]


@given(trace=traces(), horizon_s=st.floats(0.0, 60.0))
def test_every_known_access_counts_once(trace: Trace, horizon_s: float) -> None:
    """The samples of all steps are the accesses up to one horizon before the end."""
    time_s = np.repeat(trace.arrival_s, np.diff(trace.block_offsets))
    known = int((time_s <= trace.arrival_s[-1] - horizon_s).sum())
    steps = reuse_steps(trace, horizon_s)
    assert sum(step.n_samples for step in steps) == known
    assert all(0.0 <= step.probability <= 1.0 for step in steps)


@given(trace=traces(), horizon_s=st.floats(0.0, 30.0))
def test_reuse_does_not_look_past_its_horizon(trace: Trace, horizon_s: float) -> None:
    """What comes after the last known access and its horizon changes nothing, block by block checked plainly."""
    seen: dict[int, list[float]] = {}
    for request in range(trace.n_requests):
        for block in trace.blocks_of(request).tolist():
            seen.setdefault(block, []).append(float(trace.arrival_s[request]))
    first = [times for times in seen.values() if times[0] <= trace.arrival_s[-1] - horizon_s]
    back = [times for times in first if len(times) > 1 and times[1] - times[0] <= horizon_s]
    steps = [step for step in reuse_steps(trace, horizon_s) if step.frequency_min == 1.0]
    assert [step.n_samples for step in steps] == ([len(first)] if first else [])
    assert all(step.probability == pytest.approx(len(back) / len(first)) for step in steps)


@pytest.mark.parametrize("tier", [Tier.DEVICE, Tier.HOST])
def test_the_next_gib_is_measured(split: Split, ranked: Setting, tier: Tier) -> None:
    """The value of a tier is what a tenth more of it saves on the held-out part, per GiB and hour."""
    judged = split.judge(ranked)
    found = {value.tier: value for value in marginal_values(split, judged)}
    assert tuple(found) == ("device", "host")
    engine = judged.engine
    grown = replace(engine, device_blocks=330) if tier is Tier.DEVICE else replace(engine, host_blocks=1650)
    start, stop = split.held_out
    smaller, larger = (
        simulate_cache(split.whole.trace, config, split.whole.costs).totals(start, stop).net_seconds_saved
        for config in (engine, grown)
    )
    gib = 0.1 * engine.capacities[tier] * judged.evaluation.cache.block_bytes / GIB
    hours = (split.whole.trace.arrival_s[stop - 1] - split.whole.trace.arrival_s[start]) / 3600.0
    value = found[tier.name.lower()]
    assert value.seconds_per_gib_hour == pytest.approx((larger - smaller) / gib / hours)
    assert value.turnover_s == turnover_s(judged.evaluation.cache, tier)


def test_a_tier_that_is_not_there_has_no_value(device_only: Problem) -> None:
    """Without a host only the device is measured; one block is enough to grow by one."""
    split = split_in_time(replace(device_only, engine=CacheConfig(1)), 0.6)
    assert [value.tier for value in marginal_values(split, split.judge(LRU_SETTING))] == ["device"]


@given(device=VALUES, host=VALUES, horizon_s=st.floats(0.0, 1e5))
def test_prices_are_not_negative_and_the_device_is_dearer(device: float, host: float, horizon_s: float) -> None:
    """No price is below 0, and a byte on the device costs at least what one on the host does."""
    values = (MarginalValue("device", device, 1.0), MarginalValue("host", host, 1.0))
    price = prices(values, (), horizon_s)
    assert price.device_s_per_byte is not None
    assert price.host_s_per_byte is not None
    assert price.device_s_per_byte >= price.host_s_per_byte >= 0.0


def test_prices_by_hand() -> None:
    """Rent per GiB and hour becomes rent per byte over the horizon; the device pays for the host's copy too."""
    both = (MarginalValue("device", 2.0, 1.0), MarginalValue("host", 3.0, 1.0))
    steps = reuse_steps(SIX, 5.0)
    price = prices(both, steps, 1800.0)
    assert price.host_s_per_byte == pytest.approx(1.5 / GIB)
    assert price.device_s_per_byte == pytest.approx(2.5 / GIB)
    assert price.reuse == steps
    alone = prices(both[:1], (), 1800.0)
    assert alone.device_s_per_byte == pytest.approx(1.0 / GIB)
    assert alone.host_s_per_byte is None
    assert prices((), (), 1800.0).device_s_per_byte is None
