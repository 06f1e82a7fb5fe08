"""The engine's policy, the simulator's vllm mode and vLLM's own LRU decide alike, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Admission, EngineSemantics, Timing

pytestmark = pytest.mark.engine("vllm", "numba")

COSTS = CostProfile(4e-5, 1.3e-9, 131072, 5e10, 2e-5, 5e10, 2e-5, 5e9, 1e-4, 0.0, "an 8B model on a datacentre GPU")
DEVICE_BLOCKS, HOST_BLOCKS = 1_000, 4_000
RANK = {"lambda_recency": 0.1, "tau_s": 60.0, "half_life_s": 1200.0, "cost_weight": 0.2, "ghost_ratio": 4.0}


@pytest.fixture(scope="module")
def conversation() -> Trace:
    """The bundled production trace, 180,012 block accesses."""
    trace = Trace.open("sample:conversation")
    assert trace.n_accesses >= 100_000
    return trace


def decisions(trace: Trace, policy: PolicySpec, timing: Timing) -> Any:
    """What the simulator decides in vllm mode."""
    from autotune.sim.config import CacheConfig
    from autotune.sim.vllm_decisions import vllm_decisions

    config = CacheConfig(
        device_blocks=DEVICE_BLOCKS if timing is Timing.INSTANT else 8 * DEVICE_BLOCKS,
        host_blocks=HOST_BLOCKS,
        host_policy=policy,
        timing=timing,
        check_break_even=False,
        semantics=EngineSemantics.VLLM_0_32,
    )
    return vllm_decisions(trace, config, COSTS)


def our_manager(time: Any, rules: Any, block_tokens: int, device: Any = None) -> Any:
    """Our manager under the given rules, without a policy file."""
    from autotune_policies.engines.live.settings import EngineSettings
    from autotune_policies.engines.vllm.facts import GroupFacts, PoolFacts
    from autotune_policies.engines.vllm.manager import AutotuneOffloadingManager

    groups = (GroupFacts(0, block_tokens, full_attention=True),)
    facts = PoolFacts("llama-3.1-8b", "0.32.0", HOST_BLOCKS, 1 << 26, groups, 131072, 131072)
    manager = AutotuneOffloadingManager(HOST_BLOCKS, facts=facts, settings=EngineSettings(), now_ns=time)
    index: Any = manager.index
    if rules.learned is not None:
        manager._past.follow(rules, device, index)
        manager._past.tell_device(1_000_000)
        index.ranked_at_once = 10**9  # what a tick begins with is ranked then, and not in slices
    index.begin_swap(rules)
    while index.advance_swap(1000):
        pass
    return manager


def rules_of(policy: PolicySpec) -> Any:
    """The same policy as the engine gets it."""
    from autotune.core.decide.rank import NS_PER_S, rank_weight_s
    from autotune_policies.engines.live.rules import HostRules

    knobs = dict(policy.params)
    if policy.name == "lru":
        return HostRules.lru()
    return HostRules(
        "rank",
        weight_ns=rank_weight_s(knobs["lambda_recency"], knobs["tau_s"]) * NS_PER_S,
        half_life_s=knobs["half_life_s"],
        cost_weight=knobs["cost_weight"],
        ghost_ratio=knobs["ghost_ratio"],
        admission=list(Admission)[int(knobs.get("admission", 0))],
        costs=COSTS,
    )


def differences(script: Any, answers: Any) -> list[int]:
    """Requests whose hits, stores or evictions differ."""
    different = []
    for r, answer in enumerate(answers):
        stored = None if script.failed[r] else tuple(script.stored.of(r).tolist())
        expected = int(script.host_hit_chunks[r]), stored, tuple(script.evicted.of(r).tolist())
        if (answer.host_hits, answer.stored, answer.evicted) != expected:
            different.append(r)
    return different


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize(
    "policy",
    [
        PolicySpec("lru"),
        PolicySpec.of("rank", **{**RANK, "lambda_recency": 1.0}),
        PolicySpec.of("rank", **RANK),
        PolicySpec.of("rank", **RANK, admission=1.0),
        PolicySpec.of("rank", **RANK, admission=2.0),
    ],
    ids=["lru", "lambda-1", "rank-all", "rank-marginal", "rank-two-hit"],
)
def test_engine_decides_as_simulated(conversation: Trace, policy: PolicySpec, timing: Timing) -> None:
    """On the whole trace our manager hits, stores and evicts exactly what the compiled simulator does."""
    from call_script import ManualTime, lead_through

    script, time = decisions(conversation, policy, timing), ManualTime()
    manager = our_manager(time, rules_of(policy), conversation.block_tokens)
    answers = lead_through(manager, script, conversation.block_tokens, time)
    assert manager.counters.fallbacks == 0
    assert sum(len(script.evicted.of(r)) for r in range(len(answers))) > HOST_BLOCKS
    assert differences(script, answers) == []


@pytest.mark.parametrize("timing", Timing)
def test_lru_is_vllms_own(conversation: Trace, timing: Timing) -> None:
    """The manager and the LRU of vLLM itself hit, store and evict exactly what the simulator's LRU does."""
    from call_script import ManualTime, lead_through
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    script = decisions(conversation, PolicySpec("lru"), timing)
    answers = lead_through(CPUOffloadingManager(HOST_BLOCKS), script, conversation.block_tokens, ManualTime())
    assert differences(script, answers) == []


def learned(
    trace: Trace, timing: Timing, rerank_s: float | None, chunk_blocks: int, device_age_s: float
) -> tuple[Any, Any]:
    """What the simulator decides under a learned rule, and that rule as the engine gets it from a document.

    Without a time after which all is ranked anew, its keys do not change.
    """
    from pathlib import Path

    from autotune.core.policy import load
    from autotune.core.reuse import gain_table, pack
    from autotune.core.types import RankForm, StoreMode
    from autotune.sim.config import CacheConfig
    from autotune.sim.learned_rules import HazardRules
    from autotune.sim.vllm_learned import learned_vllm_decisions
    from autotune_policies.engines.live.rules import HostRules

    document: Any = load(Path(__file__).parents[3] / "data" / "policies" / "learned_conversation.yaml")
    host = document.tiers.host.model_copy(update={"store_mode": StoreMode.EAGER})
    form = RankForm.FIXED_KEY if rerank_s is None else RankForm.HAZARD
    given = {"rerank_s": rerank_s, "device_age_s": device_age_s, "form": form, "prices": None}
    section = document.class_hazard.model_copy(update=given)
    document = document.model_copy(
        update={"tiers": document.tiers.model_copy(update={"host": host}), "class_hazard": section}
    )
    model = section.model()
    rules = HazardRules(pack(model, device_age_s), gain_table(model, 0.0), section.tick_s, form=form)
    config = CacheConfig(
        device_blocks=DEVICE_BLOCKS if timing is Timing.INSTANT else 8 * DEVICE_BLOCKS,
        host_blocks=HOST_BLOCKS * chunk_blocks,
        timing=timing,
        chunk_blocks=chunk_blocks,
        check_break_even=False,
        semantics=EngineSemantics.VLLM_0_32,
    )
    return learned_vllm_decisions(trace, config, COSTS, rules), HostRules.of(document)


@pytest.mark.parametrize(
    ("timing", "rerank_s", "chunk_blocks"),
    [
        (Timing.INSTANT, 5.0, 1),
        (Timing.SERVICE, 0.5, 1),
        (Timing.SERVICE, 30.0, 2),
        (Timing.INSTANT, None, 1),
        (Timing.SERVICE, None, 2),
    ],
    ids=["instant", "service", "service-chunks", "instant-fixed-key", "service-chunks-fixed-key"],
)
def test_engine_decides_as_simulated_under_a_learned_rule(
    conversation: Trace, timing: Timing, rerank_s: float | None, chunk_blocks: int
) -> None:
    """Features, classes, ranks by tick, stores and evictions of the manager are those of the simulator."""
    from call_script import ManualTime, lead_through

    trace = conversation.slice(0, 2500)
    script, rules = learned(trace, timing, rerank_s, chunk_blocks, 10.0)
    time, chunk_tokens = ManualTime(), chunk_blocks * trace.block_tokens
    manager = our_manager(time, rules, chunk_tokens)
    answers = lead_through(manager, script, chunk_tokens, time, tells_ends=True)
    assert manager.counters.fallbacks == 0
    assert sum(len(script.evicted.of(r)) for r in range(len(answers))) > HOST_BLOCKS
    assert differences(script, answers) == []


def test_another_age_of_the_device_is_noticed(conversation: Trace) -> None:
    """The learned rule of another document decides otherwise somewhere, so that comparison can fail too."""
    from call_script import ManualTime, lead_through

    trace, time = conversation.slice(0, 2500), ManualTime()
    script, _ = learned(trace, Timing.INSTANT, 5.0, 1, 10.0)
    _, rules = learned(trace, Timing.INSTANT, 5.0, 1, 200.0)
    manager = our_manager(time, rules, trace.block_tokens)
    assert differences(script, lead_through(manager, script, trace.block_tokens, time, tells_ends=True))


def test_a_difference_is_noticed(conversation: Trace) -> None:
    """Another weight of recency decides otherwise somewhere, so the comparison can fail."""
    from call_script import ManualTime, lead_through

    script, time = decisions(conversation, PolicySpec.of("rank", **RANK), Timing.INSTANT), ManualTime()
    other = rules_of(PolicySpec.of("rank", **{**RANK, "lambda_recency": 0.2}))
    answers = lead_through(our_manager(time, other, conversation.block_tokens), script, conversation.block_tokens, time)
    assert differences(script, answers)
