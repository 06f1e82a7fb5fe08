"""From what people give to a tuning run."""

from __future__ import annotations

from autotune.api.inputs import DEFAULT_HARDWARE, DEFAULT_MODEL, cost_profile, lru_engine, open_trace
from autotune.core.clock import SystemClock
from autotune.core.eviction import PolicySpec
from autotune.core.settings import Settings, SimulationSettings
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.search.objectives.constraints import NEEDS_QUEUE, constraint
from autotune.search.presets import load_preset
from autotune.search.problem import Problem, ranked_tier, with_policy
from autotune.search.result import TuneResult
from autotune.search.space import SearchSpace, load_space
from autotune.search.tune import Progress, TuneTask, load_objective
from autotune.search.tune import tune as run_tuning
from autotune.search.write_budget import write_budget
from autotune.sim.budget import Budget
from autotune.sim.config import CacheConfig
from autotune.sim.serving import queue_for, under_lru


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
    trace = open_trace(trace)
    settings = settings or Settings()
    shape, costs = cost_profile(model, hardware, link_gb_per_s)
    budget = budget or Budget(device_blocks=device_blocks, host_blocks=host_blocks)
    engine = _engine(budget.in_blocks(trace.block_tokens * costs.kv_bytes_per_token), settings.simulation)
    objective = load_objective(settings.search.objective)
    limits = tuple(constraint(name) for name in constraints)
    needs_queue = objective.needs_queue or bool(NEEDS_QUEUE & set(constraints)) or require_ttft
    lru = under_lru(trace, engine, costs)
    queue, note = queue_for(lru, settings.queue, required=needs_queue, seed=settings.search.seed)
    task = TuneTask(
        problem=Problem(trace, engine, costs, ranked_tier(engine), queue, write_budget(settings.online)),
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


def _engine(sizes: tuple[int, int, int], settings: SimulationSettings) -> CacheConfig:
    """The engine under LRU; where there is a host to tune, the device keeps the policy of the settings."""
    engine = lru_engine(sizes, settings)
    return with_policy(engine, Tier.DEVICE, PolicySpec(settings.device_policy)) if engine.host_blocks else engine
