"""What people give, checked once, as what the simulator and the search take."""

from __future__ import annotations

from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError, TraceError
from autotune.core.settings import QueueSettings, SimulationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode, Timing
from autotune.core.units import GB, MS_PER_S
from autotune.core.validation import validate
from autotune.costs import load_hardware, profile
from autotune.geometry import load_model
from autotune.sim.config import CacheConfig

DEFAULT_MODEL = "llama-3.1-8b"
DEFAULT_HARDWARE = "h100-sxm"


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


def lru_engine(
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


def semantics_of(engine: EngineSemantics | str | None) -> EngineSemantics | None:
    """The rules of that name.

    Raises:
        ConfigError: no such engine is known.
    """
    try:
        return None if engine is None else EngineSemantics(engine)
    except ValueError:
        known = ", ".join(("vllm", *EngineSemantics))
        raise ConfigError(
            "a simulated engine is one whose rules are known", got=repr(engine), remedy=f"known: {known}"
        ) from None


def open_trace(source: Trace | str) -> Trace:
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
