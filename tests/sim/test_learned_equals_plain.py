"""The compiled cache of the learned rule gives what the plain one gives: counts, and residents block by block."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_engines import small_engines

from autotune.core.costs import CostProfile
from autotune.core.policy import WriteBudget
from autotune.core.reuse import ReuseModel, gain_table, pack
from autotune.core.state import WHERE
from autotune.core.trace import Trace
from autotune.core.types import RankForm, StoreMode, Tier, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_reference import LearnedReference
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.prepare import make_result
from autotune.sim.result import CacheResult
from autotune.sim.stream import without_partial_blocks
from autotune.testing.reuse import example_reuse_model, reuse_models
from autotune.testing.streams import cost_profiles, make_costs, traces

COLUMNS = [field.name for field in fields(CacheResult) if field.name not in ("trace", "config", "costs")]


@dataclass(frozen=True, slots=True)
class Budget:
    """A write budget in blocks, so that it is tight for any model.

    Attributes:
        blocks_per_s: Blocks that may be stored per second.
        burst_s: Seconds of it that may be saved up.
    """

    blocks_per_s: float
    burst_s: float = 3600.0

    def in_bytes(self, trace: Trace, costs: CostProfile) -> WriteBudget:
        """The same in bytes."""
        block_bytes = trace.block_tokens * costs.kv_bytes_per_token
        return WriteBudget(bytes_per_s=self.blocks_per_s * block_bytes, burst_s=self.burst_s)


def budgets() -> st.SearchStrategy[Budget]:
    """Write budgets from hardly a block a minute to more than ever comes, with little or much saved up."""
    return st.builds(Budget, st.sampled_from([0.02, 0.3, 3.0, 1e3, 1e12]), st.sampled_from([0.5, 10.0, 3600.0]))


@st.composite
def hazard_rules(draw: st.DrawFn) -> HazardRules:
    """Rules of either form with any model, ticks shorter and longer than the gaps, and any factor on copies."""
    return rules_of(
        draw(st.just(example_reuse_model()) | reuse_models()),
        draw(st.sampled_from([0.0, 2.0, 60.0])),
        tick_s=draw(st.sampled_from([0.25, 2.0, 1e4])),
        copy_factor=draw(st.sampled_from([0.0, 0.3, 1.0])),
        marginal=draw(st.booleans()),
        form=draw(st.sampled_from(RankForm)),
    )


def rules_of(
    model: ReuseModel,
    device_age_s: float,
    tick_s: float,
    copy_factor: float,
    *,
    marginal: bool = True,
    form: RankForm = RankForm.HAZARD,
) -> HazardRules:
    """The rules of a model; on the device every reuse counts."""
    return HazardRules(
        packed=pack(model, device_age_s),
        device_gains=gain_table(model, 0.0),
        tick_s=tick_s,
        copy_factor=copy_factor,
        marginal=marginal,
        form=form,
    )


def all_hints(trace: Trace, rng: np.random.Generator) -> Hints:
    """Some hint for some requests."""
    n = trace.n_requests
    return Hints(rng.integers(-1, 2, n), rng.choice([-1.0, 0.5, 30.0], n), rng.integers(-1, 4, n))


def both(
    trace: Trace,
    config: CacheConfig,
    costs: CostProfile,
    rules: HazardRules,
    forget_s: float = 1e6,
    hints: Hints | None = None,
    budget: Budget | None = None,
) -> tuple[LearnedCache, LearnedReference]:
    """The compiled cache and the plain one, neither of them run yet, under the same rules and the same write budget."""
    write = None if budget is None else budget.in_bytes(trace, costs)
    compiled = LearnedCache(trace, config, costs, shadows=False, write=write, forget_s=forget_s, hints=hints)
    compiled.know(rules.packed)
    compiled.obey(rules)
    seen = without_partial_blocks(trace) if config.full_blocks else trace
    plain = LearnedReference(seen, config, costs, rules, forget_s, hints, write=write)
    return compiled, plain


def assert_equal(compiled: LearnedCache, plain: LearnedReference) -> None:
    """All columns are the same, and so is what lies on each tier."""
    one = compiled.result()
    other = make_result(compiled.trace, compiled.config, compiled.costs, plain.out, plain.wait_ns)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    n = compiled.trace.n_blocks
    for tier, state in ((Tier.DEVICE, compiled.live.device), (Tier.HOST, compiled.live.host)):
        found = set(np.flatnonzero(state.nodes[:n, WHERE] == 1).tolist()) if len(state.nodes) else set()
        assert found == plain.residents(tier), tier


@settings(max_examples=80)
@given(trace=traces(), costs=cost_profiles(), config=small_engines(), rules=hazard_rules(), seed=st.integers(0, 99))
def test_columns_and_residents_are_equal(
    trace: Trace, costs: CostProfile, config: CacheConfig, rules: HazardRules, seed: int
) -> None:
    """Every count of every request and the residents at the end are the same, whatever model, mode and timing."""
    hints = all_hints(trace, np.random.default_rng(seed))
    compiled, plain = both(trace, config, costs, rules, [1e6, 5.0][seed % 2], hints)
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)


@settings(max_examples=40)
@given(trace=traces(), config=small_engines(), rules=hazard_rules())
def test_residents_are_equal_after_every_request(trace: Trace, config: CacheConfig, rules: HazardRules) -> None:
    """Under instant timing the same blocks lie on each tier after every single request, so that the same ones left."""
    config = replace(config, timing=Timing.INSTANT)
    compiled, plain = both(trace, config, make_costs(), rules)
    for n, _ in enumerate(plain.steps()):
        compiled.run(n + 1)
        assert_equal_so_far(compiled, plain, n + 1)


def assert_equal_so_far(compiled: LearnedCache, plain: LearnedReference, n: int) -> None:
    """The counts of the first ``n`` requests and the residents are the same."""
    np.testing.assert_array_equal(compiled.live.out[:n], plain.out[:n])
    for tier, state in ((Tier.DEVICE, compiled.live.device), (Tier.HOST, compiled.live.host)):
        where = state.nodes[: compiled.trace.n_blocks, WHERE] if len(state.nodes) else np.zeros(0)
        assert set(np.flatnonzero(where == 1).tolist()) == plain.residents(tier), tier


@settings(max_examples=40)
@given(trace=traces(), config=small_engines(), rules=hazard_rules(), budget=budgets())
def test_a_write_budget_is_kept_alike_after_every_request(
    trace: Trace, config: CacheConfig, rules: HazardRules, budget: Budget
) -> None:
    """Under a write budget the same blocks are stored, refused and taken back at every single request."""
    config = replace(config, timing=Timing.INSTANT)
    compiled, plain = both(trace, config, make_costs(), rules, budget=budget)
    for n, _ in enumerate(plain.steps()):
        compiled.run(n + 1)
        assert_equal_so_far(compiled, plain, n + 1)


@settings(max_examples=40)
@given(trace=traces(), costs=cost_profiles(), config=small_engines(), rules=hazard_rules(), budget=budgets())
def test_a_write_budget_is_kept_alike_in_every_mode(
    trace: Trace, costs: CostProfile, config: CacheConfig, rules: HazardRules, budget: Budget
) -> None:
    """Whatever mode, timing and costs, all counts and the residents at the end are the same under a write budget."""
    compiled, plain = both(trace, config, costs, rules, budget=budget)
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)


@settings(max_examples=40)
@given(trace=traces(), config=small_engines(), first=hazard_rules(), second=hazard_rules())
def test_another_model_in_the_middle_is_obeyed_alike(
    trace: Trace, config: CacheConfig, first: HazardRules, second: HazardRules
) -> None:
    """What is remembered is classified anew, and every block gets its rank by the new rules at the same moment."""
    config = replace(config, timing=Timing.INSTANT)
    compiled, plain = both(trace, config, make_costs(), first)
    half = trace.n_requests // 2
    compiled.run(half)
    steps = plain.steps()
    for _ in range(half):
        next(steps)
    compiled.know(second.packed)
    compiled.obey(second)
    plain.obey(second, int(compiled.trace.arrival_s[half - 1] * 1e9) if half else 0)
    compiled.run(trace.n_requests)
    for _ in steps:
        pass
    assert_equal(compiled, plain)


@pytest.fixture
def example() -> ReuseModel:
    """A small model."""
    return example_reuse_model()


@pytest.mark.parametrize("form", RankForm)
@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("mode", StoreMode)
def test_the_bundled_trace_is_decided_alike(
    example: ReuseModel, mode: StoreMode, timing: Timing, form: RankForm
) -> None:
    """On a production trace, in every mode and under both timings, hits, stores and evictions are the same."""
    trace = Trace.open("sample:conversation").slice(0, 900)
    config = CacheConfig(4_000 if timing is Timing.SERVICE else 500, 2_000, store_mode=mode, timing=timing)
    compiled, plain = both(trace, config, make_costs(), rules_of(example, 20.0, 10.0, 0.3, form=form))
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)
    assert compiled.result().evicted_host.sum() > 500


@pytest.mark.parametrize("form", RankForm)
@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("mode", StoreMode)
def test_a_tight_write_budget_on_the_bundled_trace_is_kept_alike(
    example: ReuseModel, mode: StoreMode, timing: Timing, form: RankForm
) -> None:
    """A budget of half of what would be stored is kept by both, with the same blocks, and most of it is used.

    Under service timing the last requests finish long after the last arrival, and so may still store.
    """
    trace = Trace.open("sample:conversation").slice(0, 900)
    config = CacheConfig(4_000 if timing is Timing.SERVICE else 500, 2_000, store_mode=mode, timing=timing)
    rules, costs = rules_of(example, 20.0, 10.0, 0.5, form=form), make_costs()
    free, _ = both(trace, config, costs, rules)
    free.run(trace.n_requests)
    seconds = free.now_s() - float(trace.arrival_s[0])
    unbounded = int(free.result().stored.sum())
    allowed = 0.5 * unbounded
    compiled, plain = both(trace, config, costs, rules, budget=Budget(allowed / seconds))
    compiled.run(trace.n_requests)
    plain.run()
    assert_equal(compiled, plain)
    stored = int(compiled.result().stored.sum())
    assert 0.5 * allowed < stored < unbounded
    assert timing is Timing.SERVICE or stored <= 1.06 * allowed
