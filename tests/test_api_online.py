"""``autotune.simulate`` with the policy ``online``, and the policy that comes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune import api
from autotune.api import Policy, Simulation, simulate
from autotune.core.errors import ConfigError, SimulationError
from autotune.core.policy import ClassHazardDocument, LruDocument, WriteBudget, parse
from autotune.core.settings import Settings, ValidationSettings
from autotune.core.trace import Trace
from autotune.core.types import Arm, RankForm, StoreMode, Timing
from autotune.online.past import rules_for
from autotune.search.learned_document import Origin, document_in_force, online_document
from autotune.search.online_run import OnlineRun
from autotune.sim.engine import simulate_cache
from autotune.sim.learned import LearnedCache

SIZES = {"device_blocks": 300, "host_blocks": 1500}
COUNTED = ("device_hit", "host_hit", "stored", "evicted_device", "evicted_host")


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The first 1,500 requests of the conversation sample."""
    return Trace.open("sample:conversation").slice(0, 1500)


@pytest.fixture(scope="module")
def outcome(trace: Trace) -> Simulation:
    """An online run that ends obeying what was learned."""
    return simulate(trace, "online", **SIZES, measure_from_s=100.0)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(outcome: Simulation) -> OnlineRun:
    """The same, beside LRU."""
    assert outcome.online is not None
    return outcome.online


def test_it_learns_and_says_what_learning_gained(trace: Trace, outcome: Simulation, run: OnlineRun) -> None:
    """The gain is that over stock LRU in a run of its own, in two parts, on the measured requests."""
    gain, lru = run.account.gain, simulate(trace, "lru", **SIZES, measure_from_s=100.0)  # type: ignore[arg-type]
    assert run.account.stock == lru.totals
    assert gain.total_frac == pytest.approx(1.0 - outcome.totals.cost_s / lru.totals.cost_s)
    assert gain.learning_frac > 0.01
    assert run.account.live == outcome.totals
    assert run.account.joint.cost_s == pytest.approx(lru.totals.cost_s * (1.0 - gain.mode_frac))
    lazy = simulate(trace, "lru", **SIZES, store=StoreMode.LAZY, measure_from_s=100.0)  # type: ignore[arg-type]
    assert run.account.staged == lazy.totals
    assert list(run.account.shadows) == list(Arm)
    assert run.account.accesses_per_s > 0.0
    assert run.account.memory.peak_bytes >= run.account.memory.before_bytes


def test_stores_are_lazy_unless_asked_otherwise(trace: Trace, run: OnlineRun) -> None:
    """The mode of the learned rule is the settings', or as given."""
    assert run.origin.engine.store_mode is StoreMode.LAZY
    eager = simulate(trace, "online", **SIZES, store=StoreMode.EAGER).online  # type: ignore[arg-type]
    assert eager is not None
    assert eager.account.gain.mode_frac == 0.0
    assert eager.account.stock == eager.account.staged == eager.account.joint


def test_the_same_seed_gives_the_same_run(trace: Trace, outcome: Simulation, run: OnlineRun) -> None:
    """A second run counts the same and ends with the same policy, byte for byte."""
    again = simulate(trace, "online", **SIZES, measure_from_s=100.0)  # type: ignore[arg-type]
    assert again.totals == outcome.totals
    assert again.online is not None
    assert Policy(again.online.document()).to_yaml() == Policy(run.document()).to_yaml()


def test_the_policy_is_the_last_rule_in_force(trace: Trace, run: OnlineRun) -> None:
    """Simulated as a file it is that rule on the same engine, request by request."""
    document = parse(Policy(run.document()).to_yaml())
    assert isinstance(document, ClassHazardDocument)
    assert run.result.in_force is not None
    cache = LearnedCache(trace, run.origin.engine, run.origin.costs, shadows=False)
    rules = rules_for(run.result.in_force, run.settings.online.copy_factor)
    cache.know(rules.packed)
    cache.obey(rules)
    cache.run(trace.n_requests)
    by_file, by_hand = simulate(trace, Policy(document)).cache, cache.result()
    for name in COUNTED:
        assert np.array_equal(getattr(by_file, name), getattr(by_hand, name)), name
    assert by_file.config.store_mode is StoreMode.LAZY
    assert by_file.config.capacities == run.origin.engine.capacities


def test_the_promise_is_judged_after_the_fit_and_holds(trace: Trace, run: OnlineRun) -> None:
    """It counts what came after the rule was in force, against LRU with eager stores; verifying finds the same."""
    document = run.document()
    assert document.expectation is not None
    assert document.provenance is not None
    assert run.result.in_force is not None
    facts = document.provenance.simulation
    from_s = facts.measure_from_frac * trace.span_s
    assert from_s == pytest.approx(run.result.in_force.in_force_at_s - trace.arrival_s[0])
    assert facts.baseline_store_mode is StoreMode.EAGER
    lru = simulate(trace, "lru", **SIZES, measure_from_s=from_s)  # type: ignore[arg-type]
    assert document.expectation.cost_baseline_s == lru.totals.cost_s
    assert document.expectation.gain_frac.low <= document.expectation.gain_frac.value
    assert Policy(document).verify(trace).holds


def test_the_policy_has_prices_of_its_ranks(run: OnlineRun) -> None:
    """Both tiers are full, so room has a price on both, measured on the later half of the trace, or a key."""
    document = run.document()
    assert isinstance(document, ClassHazardDocument)
    prices = document.class_hazard.prices
    assert prices is not None
    if document.class_hazard.form is RankForm.HAZARD:
        assert (prices.device_s_per_block_s or 0.0) > 0.0
        assert (prices.host_s_per_block_s or 0.0) > 0.0
    else:
        assert None is prices.device_s_per_block_s is prices.host_s_per_block_s
        assert -1e9 < (prices.device_key_s or 0.0) < 0.0
        assert -1e9 < (prices.host_key_s or 0.0) < 0.0
    assert prices.moments == 64
    assert prices.measured_on.startswith("requests 751 to 1,500 of the trace")


def test_a_run_that_ends_with_lru_publishes_lru_with_the_engines_own_stores(run: OnlineRun) -> None:
    """That is what an engine does without a policy, so it promises no gain."""
    document = online_document(replace(run.result, arm=Arm.LRU), run.origin, 0.0, ValidationSettings())
    assert isinstance(document, LruDocument)
    assert document.tiers.host is not None
    assert document.tiers.host.store_mode is StoreMode.EAGER
    assert document.expectation is not None
    assert document.expectation.gain_frac.value == 0.0


def test_a_rule_without_later_requests_promises_nothing(run: OnlineRun) -> None:
    """Where fewer than 20 requests came after the fit, the policy says where it came from and promises nothing."""
    assert run.result.in_force is not None
    late = replace(run.result.in_force, in_force_at_s=float(run.origin.trace.arrival_s[-1]) + 1.0)
    document = online_document(replace(run.result, in_force=late), run.origin, 0.0, ValidationSettings())
    assert document.expectation is None
    assert document.provenance is not None


def test_without_a_host_it_stays_with_lru(trace: Trace) -> None:
    """With nothing to decide it costs what LRU costs, and never fits."""
    alone = simulate(trace, "online", device_blocks=500)
    assert alone.totals.cost_s == simulate(trace, "lru", device_blocks=500).totals.cost_s
    assert alone.online is not None
    assert alone.online.result.fits == ()
    assert alone.online.result.arm_frac[Arm.LRU] == 1.0
    assert alone.online.document().kind == "lru"


def test_it_learns_under_service_timing(trace: Trace) -> None:
    """Blocks of running requests are pinned there; stock LRU is LRU's own run under the same timing."""
    short = trace.slice(0, 700)
    outcome = simulate(short, "online", device_blocks=4000, host_blocks=800, timing=Timing.SERVICE)
    assert outcome.online is not None
    config = replace(outcome.online.origin.engine, store_mode=StoreMode.EAGER)
    assert outcome.online.account.stock == simulate_cache(short, config, outcome.online.origin.costs).totals()


def test_what_it_cannot_do_is_refused(trace: Trace) -> None:
    """It governs the device too, and learns by the canonical rules only."""
    with pytest.raises(ConfigError, match="governs the device too"):
        simulate(trace, "online", device_policy="arc", **SIZES)  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match="canonical rules"):
        simulate(trace, "online", engine="vllm", **SIZES)  # type: ignore[arg-type]


def test_settings_reach_the_loop(trace: Trace) -> None:
    """A loop that waits for more requests than there are never fits."""
    settings = Settings.model_validate({"online": {"first_fit_requests": 10**6, "store_mode": StoreMode.EXCLUSIVE}})
    waits = simulate(trace, "online", **SIZES, settings=settings)  # type: ignore[arg-type]
    assert waits.online is not None
    assert waits.online.result.fits == ()
    assert waits.online.origin.engine.store_mode is StoreMode.EXCLUSIVE


def test_an_origin_counts_for_the_fingerprint(trace: Trace) -> None:
    """The policy is for the model and the blocks that it was learned on."""
    shape, costs = api.cost_profile("llama-3.1-70b")
    outcome = simulate(trace, "online", model="llama-3.1-70b", **SIZES)  # type: ignore[arg-type]
    assert outcome.online is not None
    document = outcome.online.document()
    assert (document.fingerprint.model, document.fingerprint.trace_block_tokens) == (shape.name, 512)
    assert document.budgets.host_bytes == 1500 * 512 * costs.kv_bytes_per_token
    assert isinstance(outcome.online.origin, Origin)


def test_a_write_budget_is_in_the_policy_and_is_kept_there_too(trace: Trace, run: OnlineRun) -> None:
    """The loop's rule, its budget and the copies that it makes dear come back from the file and keep to the budget."""
    stock = run.lru.stock
    bytes_per_s = 0.5 * int(stock.stored.sum()) * stock.block_bytes / trace.span_s
    section = Settings().online.model_copy(update={"write_bytes_per_s": bytes_per_s, "write_burst_s": 60.0})
    limited = simulate(trace, "online", **SIZES, settings=Settings(online=section))  # type: ignore[arg-type]
    assert limited.online is not None
    assert limited.online.result.arm is not Arm.LRU
    document = parse(Policy(limited.online.document()).to_yaml())
    assert isinstance(document, ClassHazardDocument)
    assert document.budgets.host_write == WriteBudget(bytes_per_s=bytes_per_s, burst_s=60.0)
    assert document.class_hazard.copy_factor == 0.5
    allowed = bytes_per_s * (1.05 * trace.span_s + 60.0) + stock.block_bytes
    for cache in (limited.cache, simulate(trace, Policy(document)).cache):
        assert int(cache.stored.sum()) * stock.block_bytes <= allowed
    assert Policy(document).verify(trace).holds
    assert document.expectation is not None
    assert run.document().budgets.host_write is None


def test_a_file_with_a_budget_is_the_loops_cache_under_it(trace: Trace, run: OnlineRun) -> None:
    """In force from the first request on, it does what the loop's compiled cache does with that rule and budget."""
    learned, origin = run.result.in_force, run.origin
    assert learned is not None
    budget = WriteBudget(bytes_per_s=2e8, burst_s=30.0)
    document = document_in_force(run.result, replace(origin, write=budget), 0.5)
    by_file = simulate(trace, Policy(document), **SIZES).cache  # type: ignore[arg-type]
    cache = LearnedCache(trace, origin.engine, origin.costs, shadows=False, write=budget)
    rules = rules_for(learned, 0.5)
    cache.know(rules.packed)
    cache.obey(rules)
    cache.run(trace.n_requests)
    by_hand = cache.result()
    for name in COUNTED:
        assert np.array_equal(getattr(by_file, name), getattr(by_hand, name)), name
    assert by_file.stored.sum() < simulate(trace, Policy(run.document())).cache.stored.sum()


def test_lru_at_the_end_of_a_run_with_a_budget_has_none(run: OnlineRun) -> None:
    """Nothing keeps a budget under LRU, so its policy does not claim one."""
    origin = replace(run.origin, write=WriteBudget(bytes_per_s=2e8, burst_s=30.0))
    document = document_in_force(replace(run.result, arm=Arm.LRU), origin, 0.5)
    assert document.budgets.host_write is None
