"""From a learned rule to the policy document that says it, with a promise that was judged on later requests."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace

from autotune.core.costs import CostProfile
from autotune.core.policy import (
    Budgets,
    ClassHazardDocument,
    ClassHazardSection,
    Costs,
    DeviceTier,
    Expectation,
    Fingerprint,
    GainFrac,
    LruDocument,
    Package,
    PolicyDocument,
    Prices,
    Provenance,
    SimulationFacts,
    StoredTier,
    Tiers,
    TraceSource,
    WriteBudget,
)
from autotune.core.settings import QueueSettings, Settings, ValidationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import Admission, Arm, RankForm, StoreMode
from autotune.online.loop import Learned
from autotune.online.simulate import OnlineResult
from autotune.search.choice import Judged, Split, gain_of
from autotune.search.problem import MIN_REQUESTS, Evaluation
from autotune.search.publishing import package_version
from autotune.search.rank_prices import with_rank_prices
from autotune.search.result import Interval
from autotune.search.write_budget import copy_factor_of
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import simulate_document
from autotune.sim.queueing import QueueConfig

_PACKAGES = ("numpy", "numba", "scikit-learn")


@dataclass(frozen=True, slots=True)
class Origin:
    """What was served, on what, and how the rule was found.

    Attributes:
        trace: The requests.
        engine: Capacities, timing and the store mode of the rule.
        costs: The cost model.
        model: The model, for the fingerprint.
        seed: Seed of the run.
        sampler: How the rule was found: ``online``, or the sampler of a search.
        trials: Fits, or settings that were tried.
        baseline_store_mode: Store mode of LRU, with which the promise is compared.
        write: What the rule may store to the host; ``None`` = as much as comes.
    """

    trace: Trace
    engine: CacheConfig
    costs: CostProfile
    model: ModelShape
    seed: int
    sampler: str = "online"
    trials: int = 0
    baseline_store_mode: StoreMode = StoreMode.EAGER
    write: WriteBudget | None = None


def learned_section(learned: Learned, copy_factor: float) -> ClassHazardSection:
    """The section of a document for a fitted rule."""
    return ClassHazardSection.of(
        learned.model,
        device_age_s=learned.device_age_s,
        rerank_s=learned.tick_s if learned.form is RankForm.HAZARD else None,
        copy_factor=copy_factor,
        form=learned.form,
    )


def learned_document(origin: Origin, section: ClassHazardSection, prices: Prices | None = None) -> ClassHazardDocument:
    """The document of a rule on every tier that it can govern, without a promise."""
    return ClassHazardDocument.model_validate(
        _common(origin, "class_hazard") | {"class_hazard": section, "prices": prices or Prices()}
    )


def online_document(
    result: OnlineResult, origin: Origin, copy_factor: float, rules: ValidationSettings
) -> PolicyDocument:
    """The way to run at the end of an online run, as a document: LRU with its own stores, or the rule.

    The promise is judged on the requests that came after the rule was in force, none of which it was fitted on; with
    fewer than 20 of them there is none.
    """
    origin = replace(origin, trials=len(result.fits))
    from_s = 0.0
    if result.arm is not Arm.LRU and result.in_force is not None:
        from_s = result.in_force.in_force_at_s - float(origin.trace.arrival_s[0])
    if result.arm is Arm.LRU:
        origin = replace(origin, engine=replace(origin.engine, store_mode=origin.baseline_store_mode))
    return promised(document_in_force(result, origin, copy_factor), origin, from_s, rules)


def document_in_force(result: OnlineResult, origin: Origin, copy_factor: float) -> PolicyDocument:
    """The way to run at the end of an online run, with the stores of the origin's engine and without a promise."""
    if result.arm is Arm.LRU or result.in_force is None:
        return LruDocument.model_validate(_common(origin, "lru"))
    document = learned_document(origin, learned_section(result.in_force, copy_factor))
    return with_rank_prices(document, origin.trace, origin.engine, origin.costs)


def tuned_document(
    split: Split,
    judged: Judged,
    fitted: tuple[Learned, int],
    lru: Evaluation,
    gap_closed_frac: float | None,
    prices: Prices,
    model: ModelShape,
    settings: Settings,
) -> ClassHazardDocument:
    """The document of a rule that was fitted on the past of a split and judged on what was held out.

    Args:
        split: The problem.
        judged: The rule on the held-out part.
        fitted: The rule, and how many store modes were tried with it.
        lru: LRU on the held-out part.
        gap_closed_frac: Share of the gap to the clairvoyant that is closed.
        prices: Of a byte on each tier.
        model: The model, for the fingerprint.
        settings: Everything else.
    """
    whole, train_frac = split.whole, settings.search.train_frac
    learned, trials = fitted
    origin = Origin(
        trace=whole.trace,
        engine=judged.engine,
        costs=whole.costs,
        model=model,
        seed=settings.search.seed,
        sampler="store modes",
        trials=trials,
        baseline_store_mode=whole.engine.store_mode,
        write=whole.write,
    )
    promise = expectation(
        lru,
        judged.evaluation,
        judged.gain_frac,
        settings.validation.confidence,
        f"the last {100.0 * (1.0 - train_frac):.0f} % of the trace's time, which the rule was not fitted on",
        gap_closed_frac,
    )
    document = learned_document(origin, learned_section(learned, copy_factor_of(settings.online)), prices)
    update = {"expectation": promise, "provenance": provenance(origin, train_frac, whole.queue)}
    return with_rank_prices(document.model_copy(update=update), whole.trace, origin.engine, origin.costs)


def promised(document: PolicyDocument, origin: Origin, from_s: float, rules: ValidationSettings) -> PolicyDocument:
    """The document with what it saves beside LRU from a moment on, and where it came from.

    Args:
        document: The policy.
        origin: What it was found on.
        from_s: Seconds of trace time before which requests only warm the caches up.
        rules: How bounds are drawn.
    """
    trace = origin.trace
    measure_from_frac = min(max(0.0, from_s / trace.span_s), 1.0) if trace.span_s > 0.0 else 0.0
    start = trace.first_request_at(trace.arrival_s[0] + measure_from_frac * trace.span_s)
    if trace.n_requests - start < MIN_REQUESTS:
        return document.model_copy(update={"provenance": provenance(origin, measure_from_frac)})
    measured = (start, trace.n_requests)
    baseline = replace(origin.engine, store_mode=origin.baseline_store_mode)
    lru = Evaluation(simulate_cache(trace, baseline, origin.costs), measured)
    policy = Evaluation(simulate_document(trace, document, origin.engine, origin.costs), measured)
    gain = gain_of(policy, lru, rules, origin.seed)
    update = {
        "expectation": expectation(lru, policy, gain, rules.confidence, _requests(document, start, trace)),
        "provenance": provenance(origin, measure_from_frac),
    }
    return document.model_copy(update=update)


def expectation(
    lru: Evaluation,
    policy: Evaluation,
    gain: Interval,
    confidence: float,
    measured_on: str,
    gap_closed_frac: float | None = None,
) -> Expectation:
    """The promise: what the policy costs beside LRU with its own stores.

    Args:
        lru: LRU on the requests that judge.
        policy: The policy on them.
        gain: Share of LRU's cost saved, with bounds.
        confidence: Confidence of the bounds.
        measured_on: Which requests they are.
        gap_closed_frac: Share of the gap to the clairvoyant that is closed.
    """
    return Expectation(
        cost_baseline_s=lru.totals.cost_s,
        cost_policy_s=policy.totals.cost_s,
        gain_frac=GainFrac(value=gain.value, low=gain.low, high=gain.high),
        confidence=confidence,
        net_seconds_saved_baseline=lru.totals.net_seconds_saved,
        net_seconds_saved_policy=policy.totals.net_seconds_saved,
        gap_closed_frac=gap_closed_frac,
        measured_on=measured_on,
    )


def _requests(document: PolicyDocument, start: int, trace: Trace) -> str:
    fitted = ", which the rule was not fitted on" if document.kind == "class_hazard" else ""
    return f"requests {start + 1:,} to {trace.n_requests:,} of the trace{fitted}"


def provenance(origin: Origin, measure_from_frac: float, queue: QueueConfig | None = None) -> Provenance:
    """Enough to judge the rule again."""
    engine = origin.engine
    same = origin.baseline_store_mode is engine.store_mode
    return Provenance(
        tool_version=package_version("kv-autotune"),
        trace=TraceSource.of(origin.trace),
        packages=(
            Package(name="python", version=platform.python_version()),
            *(Package(name=name, version=package_version(name)) for name in _PACKAGES),
        ),
        seed=origin.seed,
        sampler=origin.sampler,
        trials=origin.trials,
        train_frac=measure_from_frac,
        simulation=SimulationFacts(
            timing=engine.timing,
            full_blocks=engine.full_blocks,
            engine=engine.semantics,
            device_blocks=engine.device_blocks,
            host_blocks=engine.host_blocks,
            disk_blocks=engine.disk_blocks,
            measure_from_frac=measure_from_frac,
            itl_s=engine.itl_s,
            check_break_even=engine.check_break_even,
            prefetch_depth=queue.prefetch_depth if queue else QueueSettings().prefetch_depth,
            servers=queue.servers if queue else None,
            time_scale=queue.time_scale if queue else None,
            baseline_store_mode=None if same else origin.baseline_store_mode,
        ),
    )


def _common(origin: Origin, policy: str) -> dict[str, object]:
    """Sections that a document of either kind has."""
    block_bytes = origin.trace.block_tokens * origin.costs.kv_bytes_per_token
    device, host, disk = (blocks * block_bytes for blocks in origin.engine.capacities)
    learned = policy != "lru"
    stored = {
        "policy": policy,
        "admission": Admission.MARGINAL if learned else Admission.ALL,
        "store_mode": origin.engine.store_mode,
    }
    return {
        "fingerprint": Fingerprint(
            model=origin.model.name,
            kv_dtype=origin.model.kv_dtype,
            kv_bytes_per_token=origin.costs.kv_bytes_per_token,
            trace_block_tokens=origin.trace.block_tokens,
        ),
        "budgets": Budgets(
            device_bytes=device,
            host_bytes=host,
            disk_bytes=disk,
            host_write=origin.write if learned and host else None,
        ),
        "tiers": Tiers(
            device=DeviceTier.model_validate({"policy": policy}),
            host=StoredTier.model_validate(stored) if host else None,
            disk=StoredTier() if disk else None,
        ),
        "costs": Costs.of(origin.costs),
    }
