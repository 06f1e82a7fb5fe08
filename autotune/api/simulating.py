"""From what people give to one simulation."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.api.inputs import DEFAULT_HARDWARE, DEFAULT_MODEL, cost_profile, lru_engine, open_trace, semantics_of
from autotune.api.online import ONLINE, learning_engine
from autotune.api.policies import Policy
from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError, SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import PolicyDocument
from autotune.core.settings import QueueSettings, Settings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode, Tier, Timing
from autotune.core.units import GIB
from autotune.search.learned_document import Origin
from autotune.search.online_run import OnlineRun, run_online
from autotune.search.problem import ranked_tier, with_policy
from autotune.search.write_budget import write_budget
from autotune.sim.budget import Budget
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import simulate_document
from autotune.sim.queueing import QueueResult
from autotune.sim.result import CacheResult, Totals
from autotune.sim.serving import latencies, queue_for, under_lru


@dataclass(frozen=True, slots=True)
class Simulation:
    """Outcome of :func:`simulate`.

    Attributes:
        cache: Per-request outcome.
        measured: First and one past the last request that count.
        totals: Sums over those.
        queue: Latencies of those; None where TTFT is not reported.
        ttft_note: Why TTFT is reported or not.
        online: What the policy ``online`` did beside; None for any other.
    """

    cache: CacheResult
    measured: tuple[int, int]
    totals: Totals
    queue: QueueResult | None
    ttft_note: str
    online: OnlineRun | None = None


def simulate(
    trace: Trace | str,
    policy: str | PolicySpec | Policy = "lru",
    *,
    device_policy: str | PolicySpec | None = None,
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    link_gb_per_s: float | None = None,
    budget: Budget | None = None,
    device_blocks: int | None = None,
    host_blocks: int | None = None,
    store: StoreMode | None = None,
    timing: Timing | None = None,
    full_blocks: bool | None = None,
    engine: EngineSemantics | str | None = None,
    measure_from_s: float | None = None,
    queue: QueueSettings | None = None,
    require_ttft: bool = False,
    seed: int = 0,
    settings: Settings | None = None,
) -> Simulation:
    """Run a trace through a simulated engine.

    Args:
        trace: A trace, or ``FORMAT:PATH``.
        policy: Name of a policy, which governs the host where there is one and else the device; ``online``, which
            learns while it runs and governs both; or a policy file's content, which governs the tiers that it declares.
        device_policy: Overrides who leaves the device.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        link_gb_per_s: Overrides the profile's host link, both directions.
        budget: Capacities; a policy file's own where nothing is given.
        device_blocks: Short for ``Budget(device_blocks=...)``.
        host_blocks: Short for ``Budget(host_blocks=...)``.
        store: When the host gets a block; where nothing is given, a policy file's own mode or that of the section
            ``online``, else the settings'.
        timing: When a request's blocks become idle.
        full_blocks: Drop partial tail blocks, as engines do.
        engine: By whose rules the host works: ``canonical``, or ``vllm`` for those of vLLM.
        measure_from_s: Requests before this time only warm the caches up.
        queue: The serving side, for TTFT.
        require_ttft: Whether an unstable load is an error instead of a note.
        seed: Spreads arrivals inside a tick of the trace's clock; draws what the policy ``online`` draws.
        settings: Defaults for what is not given.

    Raises:
        AutotuneError: an input is not valid; nothing is simulated then.
    """
    trace = open_trace(trace)
    settings = settings or Settings()
    document = policy.document if isinstance(policy, Policy) else None
    shape, costs = cost_profile(model, hardware, link_gb_per_s)
    budget = budget or _default_budget(document, device_blocks, host_blocks)
    sizes = budget.in_blocks(trace.block_tokens * costs.kv_bytes_per_token)
    config = lru_engine(
        sizes, settings.simulation, store=store, timing=timing, full_blocks=full_blocks, semantics=semantics_of(engine)
    )
    start = _first_measured(trace, measure_from_s, settings)
    device = PolicySpec(device_policy) if isinstance(device_policy, str) else device_policy
    online = None
    if document:
        _require_same_model(document, shape, costs)
        cache = simulate_document(trace, document, config, costs, store=store, device_policy=device)
    elif policy == ONLINE:
        config = learning_engine(config, settings.online, store, device)
        origin = Origin(trace, config, costs, shape, seed, write=write_budget(settings.online))
        online = run_online(origin, start, settings)
        cache = online.result.cache
    else:
        cache = simulate_cache(trace, _ruled_by(config, policy, device), costs)
    known = None if online or (document and document.kind == "class_hazard") else cache
    lru = under_lru(trace, cache.config, costs, known=known)
    servers, note = queue_for(lru, queue or settings.queue, required=require_ttft, seed=seed, start=start)
    measured = (start, trace.n_requests)
    latency = latencies(cache, servers, measured) if servers else None
    return Simulation(cache, measured, cache.totals(*measured), latency, note, online)


def _ruled_by(engine: CacheConfig, policy: str | PolicySpec | Policy, device: PolicySpec | None) -> CacheConfig:
    """The engine with a policy by name on the tier that is ranked, and one of its own on the device if it has one."""
    spec = policy if isinstance(policy, PolicySpec) else PolicySpec(str(policy))
    ruled = with_policy(engine, ranked_tier(engine), spec)
    return ruled if device is None else with_policy(ruled, Tier.DEVICE, device)


def _first_measured(trace: Trace, measure_from_s: float | None, settings: Settings) -> int:
    if measure_from_s is None:
        measure_from_s = settings.simulation.measure_from_frac * trace.span_s
    if not 0.0 <= measure_from_s <= trace.span_s:
        raise SimulationError(
            "measuring must begin within the trace", got=f"{measure_from_s:g} s of {trace.span_s:g} s"
        )
    return trace.first_request_at(trace.arrival_s[0] + measure_from_s)


def _default_budget(document: PolicyDocument | None, device_blocks: int | None, host_blocks: int | None) -> Budget:
    if document is None or device_blocks is not None or host_blocks is not None:
        return Budget(device_blocks=device_blocks, host_blocks=host_blocks)
    sizes = document.budgets
    return Budget(device_gib=sizes.device_bytes / GIB, host_gib=sizes.host_bytes / GIB, disk_gib=sizes.disk_bytes / GIB)


def _require_same_model(document: PolicyDocument, shape: ModelShape, costs: CostProfile) -> None:
    expected = document.fingerprint
    if (expected.model, expected.kv_bytes_per_token) != (shape.name, costs.kv_bytes_per_token):
        raise ConfigError(
            f"the policy is for {expected.model} with {expected.kv_bytes_per_token:,} bytes of KV per token",
            got=f"{shape.name} with {costs.kv_bytes_per_token:,}",
            remedy="give that model with --model, or tune again for this one",
        )
