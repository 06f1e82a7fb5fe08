"""The public API, which the command line itself uses.

>>> import autotune
>>> trace = autotune.Trace.open("sample:conversation")
>>> outcome = autotune.simulate(trace, "lru", device_blocks=1000)
>>> outcome.totals.device_hit_blocks
7883
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotune.advise.entry import advise, advise_live, plan
from autotune.advise.plan import PlanRequest
from autotune.advise.verify import Verification
from autotune.advise.verify import verify as verify_document
from autotune.core import policy as documents
from autotune.core.clock import SystemClock
from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError, SimulationError, TraceError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import Explanation, PolicyDocument
from autotune.core.settings import QueueSettings, Settings, SimulationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode, Tier, Timing
from autotune.core.units import GB, GIB, MS_PER_S
from autotune.core.validation import validate
from autotune.costs import load_hardware, profile
from autotune.export import Change, Export, Flavor, export_policy, render, save
from autotune.export import diff as diff_documents
from autotune.geometry import load_model
from autotune.search.objectives.constraints import NEEDS_QUEUE, constraint
from autotune.search.presets import load_preset
from autotune.search.problem import Problem, ranked_tier, with_policy
from autotune.search.result import TuneResult
from autotune.search.space import SearchSpace, load_space
from autotune.search.tune import Progress, TuneTask, load_objective
from autotune.search.tune import tune as run_tuning
from autotune.sim.budget import Budget
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import engine_of
from autotune.sim.queueing import QueueResult
from autotune.sim.result import CacheResult, Totals
from autotune.sim.serving import latencies, queue_for, under_lru

__all__ = [
    "Budget",
    "PlanRequest",
    "Policy",
    "Simulation",
    "advise",
    "advise_live",
    "cost_profile",
    "plan",
    "queue_settings",
    "simulate",
    "tune",
]

DEFAULT_MODEL = "llama-3.1-8b"
DEFAULT_HARDWARE = "h100-sxm"


@dataclass(frozen=True, slots=True)
class Simulation:
    """Outcome of :func:`simulate`.

    Attributes:
        cache: Per-request outcome.
        measured: First and one past the last request that count.
        totals: Sums over those.
        queue: Latencies of those; None where TTFT is not reported.
        ttft_note: Why TTFT is reported or not.
    """

    cache: CacheResult
    measured: tuple[int, int]
    totals: Totals
    queue: QueueResult | None
    ttft_note: str


class Policy:
    """A policy document with what people do with one.

    >>> from autotune.testing.documents import example_document
    >>> policy = Policy(example_document())
    >>> policy.document.kind
    'rank'
    """

    def __init__(self, document: PolicyDocument) -> None:
        self.document = document

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read and validate a policy file.

        Raises:
            PolicyError: the file is missing or breaks a rule of the schema.
        """
        return cls(documents.load(Path(path)))

    def save(self, path: str | Path) -> None:
        """Write the policy as commented YAML, all of it or nothing."""
        save(self.document, Path(path))

    def to_yaml(self) -> str:
        """The policy as commented YAML."""
        return render(self.document)

    def diff(self, other: Policy) -> list[Change]:
        """What changes from this policy to the other."""
        return diff_documents(self.document, other.document)

    def export(
        self,
        path: str | Path,
        engine: str = "vllm",
        *,
        flavor: Flavor | None = None,
        block_tokens: int | None = None,
        ranks: int = 1,
        disk_dir: str | Path | None = None,
        batch_size: int | None = None,
    ) -> Export:
        """The native settings with which an engine obeys the policy.

        Args:
            path: Where the engine will find the policy file.
            engine: Name of a registered renderer.
            flavor: All that our plug-in obeys, or what the engine can do by itself; None = the first where there is
                a plug-in for this engine.
            block_tokens: Tokens per block of the engine, where known.
            ranks: Processes of one engine that share its KV cache: tensor-parallel times pipeline-parallel size.
            disk_dir: Folder of the disk tier on the engine's machine.
            batch_size: Sequences per batch, for engines that place whole sequences.

        Raises:
            AutotuneError: there is no such engine, or the policy cannot be rendered for it.
        """
        return export_policy(
            self.document,
            Path(path),
            engine,
            flavor=flavor,
            block_tokens=block_tokens,
            ranks=ranks,
            disk_dir=None if disk_dir is None else Path(disk_dir),
            batch_size=batch_size,
        )

    def explain(
        self, *, depth_tokens: int, frequency: float, age_s: float = 0.0, size_tokens: int | None = None
    ) -> Explanation:
        """Value, price and decision for a block."""
        size = size_tokens or self.document.fingerprint.trace_block_tokens
        return documents.explain(
            self.document, depth_tokens=depth_tokens, frequency=frequency, age_s=age_s, size_tokens=size
        )

    def verify(self, trace: Trace | str | None = None) -> Verification:
        """Simulate the policy and LRU again and compare with what the policy promises.

        Args:
            trace: A trace, or ``FORMAT:PATH``; the bundled sample that the policy was judged on if not given.

        Raises:
            AutotuneError: the policy promises nothing, or the requests are not at hand.
        """
        return verify_document(self.document, Trace.open(trace) if isinstance(trace, str) else trace)


def cost_profile(
    model: str = DEFAULT_MODEL, hardware: str = DEFAULT_HARDWARE, link_gb_per_s: float | None = None
) -> tuple[ModelShape, CostProfile]:
    """The model's dimensions and the cost model of its serving.

    Raises:
        ConfigError: the model or the hardware is unknown, or the link is not positive.
    """
    shape = load_model(model)
    if link_gb_per_s is not None and not 0.0 < link_gb_per_s < 1e6:
        raise ConfigError("the link's bandwidth must be positive", got=f"{link_gb_per_s:g} GB/s")
    link = None if link_gb_per_s is None else link_gb_per_s * GB
    return shape, profile(shape, load_hardware(hardware), link_bytes_per_s=link)


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
        policy: Name of a policy, which governs the host where there is one and else the device; or a policy file's
            content, which governs every tier that it declares.
        device_policy: Overrides who leaves the device.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        link_gb_per_s: Overrides the profile's host link, both directions.
        budget: Capacities; a policy file's own where nothing is given.
        device_blocks: Short for ``Budget(device_blocks=...)``.
        host_blocks: Short for ``Budget(host_blocks=...)``.
        store: When the host gets a block; a policy file's own mode where nothing is given, else the settings'.
        timing: When a request's blocks become idle.
        full_blocks: Drop partial tail blocks, as engines do.
        engine: By whose rules the host works: ``canonical``, or ``vllm`` for those of vLLM.
        measure_from_s: Requests before this time only warm the caches up.
        queue: The serving side, for TTFT.
        require_ttft: Whether an unstable load is an error instead of a note.
        seed: Spreads arrivals inside a tick of the trace's clock.
        settings: Defaults for what is not given.

    Raises:
        AutotuneError: an input is not valid; nothing is simulated then.
    """
    trace = _open(trace)
    settings = settings or Settings()
    document = policy.document if isinstance(policy, Policy) else None
    shape, costs = cost_profile(model, hardware, link_gb_per_s)
    budget = budget or _default_budget(document, device_blocks, host_blocks)
    sizes = budget.in_blocks(trace.block_tokens * costs.kv_bytes_per_token)
    config = _engine(
        sizes, settings.simulation, store=store, timing=timing, full_blocks=full_blocks, semantics=_semantics(engine)
    )
    if document:
        _require_same_model(document, shape, costs)
        config = engine_of(document, config, trace.block_tokens, store)
    else:
        spec = policy if isinstance(policy, PolicySpec) else PolicySpec(str(policy))
        config = with_policy(config, ranked_tier(config), spec)
    if device_policy is not None:
        spec = device_policy if isinstance(device_policy, PolicySpec) else PolicySpec(device_policy)
        config = with_policy(config, Tier.DEVICE, spec)
    if measure_from_s is None:
        measure_from_s = settings.simulation.measure_from_frac * trace.span_s
    return _measure(trace, config, costs, measure_from_s, queue or settings.queue, require_ttft, seed)


def tune(
    trace: Trace | str,
    *,
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    link_gb_per_s: float | None = None,
    budget: Budget | None = None,
    device_blocks: int | None = None,
    host_blocks: int | None = None,
    settings: Settings | None = None,
    space: SearchSpace | None = None,
    constraints: tuple[str, ...] = (),
    preset: str | None = None,
    require_ttft: bool = False,
    trace_name: str = "",
    storage: str | None = None,
    on_progress: Progress | None = None,
) -> TuneResult:
    """Find the setting of the rank rule that serves a trace best, or find that LRU does.

    Args:
        trace: A trace, or ``FORMAT:PATH``.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        link_gb_per_s: Overrides the profile's host link, both directions.
        budget: Capacities.
        device_blocks: Short for ``Budget(device_blocks=...)``.
        host_blocks: Short for ``Budget(host_blocks=...)``.
        settings: Everything else; see ``configs/default.yaml``.
        space: Where to search; the one that the package ships if not given.
        constraints: Names of limits to keep.
        preset: Name of a setting to start from.
        require_ttft: Whether an unstable load is an error instead of a note.
        trace_name: How the report calls the trace.
        storage: SQLAlchemy URL of a study to resume.
        on_progress: Called with step, position, total and the best value so far.

    Raises:
        AutotuneError: an input is not valid.
    """
    trace_name = trace_name or (trace if isinstance(trace, str) else trace.provenance.trace_format)
    trace = _open(trace)
    settings = settings or Settings()
    shape, costs = cost_profile(model, hardware, link_gb_per_s)
    budget = budget or Budget(device_blocks=device_blocks, host_blocks=host_blocks)
    engine = _engine(budget.in_blocks(trace.block_tokens * costs.kv_bytes_per_token), settings.simulation)
    if engine.host_blocks:
        engine = with_policy(engine, Tier.DEVICE, PolicySpec(settings.simulation.device_policy))
    objective = load_objective(settings.search.objective)
    limits = tuple(constraint(name) for name in constraints)
    needs_queue = objective.needs_queue or bool(NEEDS_QUEUE & set(constraints)) or require_ttft
    lru = under_lru(trace, engine, costs)
    queue, note = queue_for(lru, settings.queue, required=needs_queue, seed=settings.search.seed)
    task = TuneTask(
        problem=Problem(trace, engine, costs, ranked_tier(engine), queue),
        space=space or load_space(),
        objective=objective,
        constraints=limits,
        settings=settings,
        model=shape,
        trace_name=trace_name,
        ttft_note=note,
        storage=storage,
        start=(load_preset(preset).setting(),) if preset else (),
    )
    return run_tuning(task, SystemClock(), on_progress)


def _engine(
    sizes: tuple[int, int, int],
    settings: SimulationSettings,
    *,
    store: StoreMode | None = None,
    timing: Timing | None = None,
    full_blocks: bool | None = None,
    semantics: EngineSemantics | None = None,
) -> CacheConfig:
    """An engine with LRU on every tier; what is not given is as the settings say."""
    return CacheConfig(
        *sizes,
        store_mode=store or settings.store_mode,
        timing=timing or settings.timing,
        itl_s=settings.itl_ms / MS_PER_S,
        full_blocks=settings.full_blocks if full_blocks is None else full_blocks,
        semantics=semantics or settings.engine,
    )


def _semantics(engine: EngineSemantics | str | None) -> EngineSemantics | None:
    try:
        return None if engine is None else EngineSemantics(engine)
    except ValueError:
        known = ", ".join(("vllm", *EngineSemantics))
        raise ConfigError(
            "a simulated engine is one whose rules are known", got=repr(engine), remedy=f"known: {known}"
        ) from None


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


def _measure(
    trace: Trace,
    engine: CacheConfig,
    costs: CostProfile,
    measure_from_s: float,
    queue: QueueSettings,
    require_ttft: bool,
    seed: int,
) -> Simulation:
    if not 0.0 <= measure_from_s <= trace.span_s:
        raise SimulationError(
            "measuring must begin within the trace", got=f"{measure_from_s:g} s of {trace.span_s:g} s"
        )
    start = trace.first_request_at(trace.arrival_s[0] + measure_from_s)
    measured = (start, trace.n_requests)
    cache = simulate_cache(trace, engine, costs)
    lru = under_lru(trace, engine, costs, known=cache)
    config, note = queue_for(lru, queue, required=require_ttft, seed=seed, start=start)
    latency = latencies(cache, config, measured) if config else None
    return Simulation(cache, measured, cache.totals(*measured), latency, note)


def _open(source: Trace | str) -> Trace:
    """The trace, with blocks and with requests.

    Raises:
        TraceError: it has none.
    """
    trace = Trace.open(source) if isinstance(source, str) else source
    trace.require_blocks()
    if not trace.n_requests:
        raise TraceError(
            "a simulation needs requests", got="a trace without any", remedy="see what --on-error skip left out"
        )
    return trace


def queue_settings(given: dict[str, int | float]) -> QueueSettings:
    """Queue settings from what the user gave; the rest keeps its default.

    Raises:
        ConfigError: a value is out of range.
    """
    return validate(QueueSettings, given, ConfigError, "queue")
