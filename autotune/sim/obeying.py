"""A simulated engine that obeys one learned rule from its first request to its last."""

from __future__ import annotations

from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.policy import ClassHazardDocument, WriteBudget
from autotune.core.reuse import gain_table, pack
from autotune.core.trace import Trace
from autotune.core.types import Admission, EngineSemantics, Tier
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig
from autotune.sim.governing import BOTH_TIERS
from autotune.sim.learned import LearnedCache
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.result import CacheResult


def simulate_rules(
    trace: Trace,
    engine: CacheConfig,
    costs: CostProfile,
    rules: HazardRules,
    governed: tuple[Tier, ...] = BOTH_TIERS,
    hints: Hints | None = None,
    write: WriteBudget | None = None,
) -> CacheResult:
    """Run every request of the trace through tiers that obey the rules, starting empty.

    Args:
        trace: The requests.
        engine: Capacities, store mode and timing; device and host are LRU where the rules do not govern them.
        costs: The cost model.
        rules: The rule.
        governed: Tiers that it governs.
        hints: What clients told; ``None`` = what the trace says of it.
        write: What may be stored to the host, from the first request on; ``None`` = as much as comes.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        SimulationError: the engine works by rules under which a learned policy is not simulated.
    """
    if engine.semantics is not EngineSemantics.CANONICAL:
        raise SimulationError(
            "a learned policy is simulated by the canonical rules",
            got=engine.semantics,
            remedy="use --engine canonical",
        )
    cache = obeying_cache(trace, engine, costs, rules, governed, hints, write)
    cache.run(cache.trace.n_requests)
    return cache.result()


def obeying_cache(
    trace: Trace,
    engine: CacheConfig,
    costs: CostProfile,
    rules: HazardRules,
    governed: tuple[Tier, ...] = BOTH_TIERS,
    hints: Hints | None = None,
    write: WriteBudget | None = None,
) -> LearnedCache:
    """An empty cache over a trace, with the rules in force, to be run piece by piece; see :func:`simulate_rules`.

    Raises:
        TraceError: the trace carries no blocks, or a request that would pin a block twice.
        SimulationError: the engine stores chunks of several blocks, or the write budget hardly ever allows a block.
    """
    cache = LearnedCache(trace, engine, costs, shadows=False, write=write, hints=hints or hints_of(trace))
    cache.know(rules.packed)
    cache.obey(rules, governed)
    return cache


def rules_of(document: ClassHazardDocument) -> HazardRules:
    """The rule that a document holds.

    Raises:
        SimulationError: it admits blocks by a rule that is not simulated with a learned policy.
    """
    for tier in governed_tiers(document):
        rule = document.tiers.of(tier)
        known = (Admission.ALL, Admission.MARGINAL) if tier is Tier.HOST else (Admission.ALL,)
        if rule is not None and rule.admission not in known:
            raise SimulationError(
                f"under a learned policy the {tier.name.lower()} is simulated with admission {' or '.join(known)}",
                got=rule.admission,
            )
    section, host = document.class_hazard, document.tiers.host
    model = section.model()
    return HazardRules(
        packed=pack(model, section.device_age_s),
        device_gains=gain_table(model, 0.0),
        tick_s=section.tick_s,
        copy_factor=section.copy_factor,
        marginal=host is not None and host.admission is Admission.MARGINAL,
        form=section.form,
    )


def governed_tiers(document: ClassHazardDocument) -> tuple[Tier, ...]:
    """The tiers whose policy is the learned one."""
    return tuple(
        tier for tier in BOTH_TIERS if (rule := document.tiers.of(tier)) is not None and rule.policy == "class_hazard"
    )
