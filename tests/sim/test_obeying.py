"""A policy document of kind class_hazard in the simulator: every rule of it, from the first request on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import ClassHazardDocument, WriteBudget, parse
from autotune.core.trace import Trace
from autotune.core.types import Admission, EngineSemantics, RankForm, StoreMode, Tier, Timing
from autotune.export import render
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import engine_of, simulate_document
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_reference import LearnedReference
from autotune.sim.obeying import governed_tiers, rules_of, simulate_rules
from autotune.sim.prepare import make_result
from autotune.sim.result import CacheResult
from autotune.testing.documents import example_learned_document
from autotune.testing.streams import Ask, make_costs, make_trace

COLUMNS = [field.name for field in fields(CacheResult) if field.name not in ("trace", "config", "costs")]
ENGINE = CacheConfig(8, 16)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Chains of three blocks, some of which come back soon and some late."""
    rng = np.random.default_rng(5)
    starts = rng.zipf(1.4, 300) % 40 * 10
    return make_trace([Ask(2.0 * i, [s, s + 1, s + 2]) for i, s in enumerate(starts.tolist())])


@pytest.fixture(scope="module")
def costs() -> CostProfile:
    """Costs at which loads pay."""
    return make_costs()


def with_tiers(**tiers: dict[str, Any]) -> ClassHazardDocument:
    """The example document with other rules on its tiers."""
    given = example_learned_document()
    changed = {name: getattr(given.tiers, name).model_copy(update=update) for name, update in tiers.items()}
    return given.model_copy(update={"tiers": given.tiers.model_copy(update=changed)})


def same(first: CacheResult, second: CacheResult) -> bool:
    """Whether two results agree request by request."""
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in COLUMNS)


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("store_mode", StoreMode)
def test_a_document_is_the_learned_cache(
    trace: Trace, costs: CostProfile, store_mode: StoreMode, timing: Timing
) -> None:
    """Written as text, read back and simulated, it is the plain cache under its rules, request by request."""
    written = parse(render(with_tiers(host={"store_mode": store_mode})))
    assert isinstance(written, ClassHazardDocument)
    engine = replace(ENGINE, timing=timing)
    found = simulate_document(trace, written, engine, costs)
    config = replace(engine, store_mode=store_mode)
    plain = LearnedReference(trace, config, costs, rules_of(written))
    plain.run()
    assert same(found, make_result(trace, config, costs, plain.out, plain.wait_ns))
    assert not same(found, simulate_cache(trace, config, costs))


@pytest.mark.parametrize("timing", Timing)
def test_a_document_with_fixed_keys_is_the_learned_cache(trace: Trace, costs: CostProfile, timing: Timing) -> None:
    """Read back and simulated it is the plain cache under its rules, and decides otherwise than with ticks."""
    by_tick = with_tiers(host={"store_mode": StoreMode.LAZY})
    section = by_tick.class_hazard.model_copy(update={"form": RankForm.FIXED_KEY, "rerank_s": None})
    written = parse(render(by_tick.model_copy(update={"class_hazard": section})))
    assert isinstance(written, ClassHazardDocument)
    assert rules_of(written).form is RankForm.FIXED_KEY
    engine = replace(ENGINE, timing=timing)
    found = simulate_document(trace, written, engine, costs)
    config = replace(engine, store_mode=StoreMode.LAZY)
    plain = LearnedReference(trace, config, costs, rules_of(written))
    plain.run()
    assert same(found, make_result(trace, config, costs, plain.out, plain.wait_ns))
    assert not same(found, simulate_document(trace, by_tick, engine, costs))


def test_the_rules_hold_from_the_start(trace: Trace, costs: CostProfile) -> None:
    """It is the compiled cache without shadows whose rules were put in force before the first request."""
    document = example_learned_document()
    cache = LearnedCache(trace, replace(ENGINE, store_mode=StoreMode.LAZY), costs, shadows=False)
    rules = rules_of(document)
    cache.know(rules.packed)
    cache.obey(rules)
    cache.run(trace.n_requests)
    assert same(simulate_document(trace, document, ENGINE, costs), cache.result())


def test_a_tier_under_lru_stays_under_lru(trace: Trace, costs: CostProfile) -> None:
    """Where the document leaves the device to LRU, the device finds what it finds under LRU; the host does not."""
    document = with_tiers(device={"policy": "lru"}, host={"store_mode": StoreMode.EAGER})
    assert governed_tiers(document) == (Tier.HOST,)
    found, lru = simulate_document(trace, document, ENGINE, costs), simulate_cache(trace, ENGINE, costs)
    assert np.array_equal(found.device_hit, lru.device_hit)
    assert not np.array_equal(found.host_hit, lru.host_hit)
    by_hand = simulate_document(
        trace, with_tiers(host={"store_mode": StoreMode.EAGER}), ENGINE, costs, device_policy=PolicySpec("lru")
    )
    assert same(found, by_hand)


def test_the_store_mode_may_be_overridden(trace: Trace, costs: CostProfile) -> None:
    """A mode that is given counts, not the document's."""
    document = example_learned_document()
    assert simulate_document(trace, document, ENGINE, costs).config.store_mode is StoreMode.LAZY
    eager = simulate_document(trace, document, ENGINE, costs, store=StoreMode.EAGER)
    assert same(eager, simulate_document(trace, with_tiers(host={"store_mode": StoreMode.EAGER}), ENGINE, costs))


@pytest.mark.parametrize("tiers", [{"host": {"admission": Admission.TWO_HIT}}, {"device": {"admission": "marginal"}}])
def test_admission_that_is_not_simulated_is_refused(
    trace: Trace, costs: CostProfile, tiers: dict[str, dict[str, Any]]
) -> None:
    """Nothing is simulated by another rule than the document's."""
    with pytest.raises(SimulationError, match="is simulated with admission"):
        simulate_document(trace, with_tiers(**tiers), ENGINE, costs)


def test_engines_that_cannot_obey_are_refused(trace: Trace, costs: CostProfile) -> None:
    """The compiled cache knows the canonical rules, single blocks, and no second policy on the device."""
    document = example_learned_document()
    vllm = CacheConfig(8, 16, semantics=EngineSemantics.VLLM_0_32)
    with pytest.raises(SimulationError, match="by the canonical rules"):
        simulate_rules(trace, vllm, costs, rules_of(document))
    with pytest.raises(SimulationError, match="the device keeps LRU or obeys it too"):
        simulate_document(trace, document, ENGINE, costs, device_policy=PolicySpec("sieve"))
    with pytest.raises(SimulationError, match="a policy of kind 'class_hazard'"):
        engine_of(document, ENGINE, trace.block_tokens)


def test_a_write_budget_that_never_allows_a_block_is_refused(trace: Trace, costs: CostProfile) -> None:
    """One block in more than thirty years is a mistake, and its times would not fit their numbers."""
    rules = rules_of(example_learned_document())
    with pytest.raises(SimulationError, match=r"within 1e.09 s; got 1e-20 bytes per second"):
        simulate_rules(trace, ENGINE, costs, rules, write=WriteBudget(bytes_per_s=1e-20, burst_s=1.0))


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("store_mode", StoreMode)
def test_the_write_budget_of_a_document_is_obeyed(
    trace: Trace, costs: CostProfile, store_mode: StoreMode, timing: Timing
) -> None:
    """Written, read back and simulated, it is the learned cache under that budget, which stores less and holds."""
    block_bytes = trace.block_tokens * costs.kv_bytes_per_token
    budget = WriteBudget(bytes_per_s=0.2 * block_bytes, burst_s=50.0)
    given = with_tiers(host={"store_mode": store_mode})
    limited = given.model_copy(update={"budgets": given.budgets.model_copy(update={"host_write": budget})})
    written = parse(render(limited))
    assert isinstance(written, ClassHazardDocument)
    engine = replace(ENGINE, timing=timing)
    found = simulate_document(trace, written, engine, costs)
    cache = LearnedCache(trace, replace(engine, store_mode=store_mode), costs, shadows=False, write=budget)
    cache.know(rules_of(written).packed)
    cache.obey(rules_of(written))
    cache.run(trace.n_requests)
    assert same(found, cache.result())
    stored = int(found.stored.sum())
    assert 0 < stored < int(simulate_document(trace, given, engine, costs).stored.sum())
    seconds = trace.span_s + float(found.wait_s.max()) + 60.0
    reserve_blocks = 0.2 * 0.05 * seconds  # what residents continue may be written ahead of the budget
    assert stored <= 0.2 * (seconds + budget.burst_s) + reserve_blocks + 1.0
