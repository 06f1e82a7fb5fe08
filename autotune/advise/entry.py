"""Plans and advice from names: of a model, a machine and a trace."""

from __future__ import annotations

from dataclasses import replace

from autotune.advise.advice import Advice
from autotune.advise.advice import advise as advise_on
from autotune.advise.live import observe_page
from autotune.advise.plan import Plan, PlanRequest, build_plan
from autotune.advise.plan.reload import ReloadModel
from autotune.advise.pressure import DEFAULT_IDLE_S, observe
from autotune.core.errors import ConfigError
from autotune.core.settings import Settings
from autotune.core.shapes import HardwareSpec
from autotune.core.trace import Trace
from autotune.core.units import GB, GIB, MS_PER_S
from autotune.costs import load_hardware, with_link
from autotune.geometry import load_geometry

DEFAULT_MODEL = "llama-3.1-8b"
DEFAULT_HARDWARE = "h100-sxm"


def plan(
    request: PlanRequest,
    *,
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    kv_dtype: str | None = None,
    link_gb_per_s: float | None = None,
    weights_gib: float | None = None,
) -> Plan:
    """What fits on a machine, how fast it decodes, and which technique would help.

    >>> plan(PlanRequest(context_tokens=131_072, concurrency=1, ranks=16), model="deepseek-v3").kv_bytes
    9210691584

    Args:
        request: Load and limits.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        kv_dtype: Format of the KV where it is not the type of the weights.
        link_gb_per_s: Overrides the profile's host link, both directions.
        weights_gib: Size of all weights, instead of what is counted or published.

    Raises:
        ConfigError: an input is not valid, or the size of the weights is not known.
    """
    geometry = load_geometry(model, kv_dtype=kv_dtype)
    if weights_gib is not None:
        weights = replace(geometry.weights, size_bytes=round(_positive("the size of the weights", weights_gib) * GIB))
        geometry = replace(geometry, weights=weights)
    return build_plan(geometry, _machine(hardware, link_gb_per_s), request)


def advise(
    trace: Trace | str,
    *,
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    device_gib: float,
    kv_dtype: str | None = None,
    link_gb_per_s: float | None = None,
    idle_s: float = DEFAULT_IDLE_S,
    settings: Settings | None = None,
) -> Advice:
    """Which technique answers the pressure that a trace puts on a device, and which does not.

    Args:
        trace: A trace, or ``FORMAT:PATH``.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        device_gib: KV that the device holds.
        kv_dtype: Format of the KV where it is not the type of the weights.
        link_gb_per_s: Overrides the profile's host link, both directions.
        idle_s: How long a block must be unused to count as idle.
        settings: For the time per output token.

    Raises:
        AutotuneError: an input is not valid, or the model's tokens do not all cost the same.
    """
    geometry = load_geometry(model, kv_dtype=kv_dtype)
    times = ReloadModel(geometry, _machine(hardware, link_gb_per_s))
    return advise_on(
        observe(
            Trace.open(trace) if isinstance(trace, str) else trace,
            times.costs(),
            device_bytes=round(_positive("the device's KV", device_gib) * GIB),
            weights_bytes=geometry.weights.size_bytes,
            break_even_tokens=times.break_even_tokens(0),
            itl_s=(settings or Settings()).simulation.itl_ms / MS_PER_S,
            idle_s=_positive("the time after which a block is idle", idle_s),
        )
    )


def advise_live(
    page: str,
    *,
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    device_gib: float,
    kv_dtype: str | None = None,
    link_gb_per_s: float | None = None,
) -> Advice:
    """The same from the counters of a running engine.

    Args:
        page: Text of its ``/metrics`` page.
        model: Name or config.json of the model.
        hardware: Name or file of the hardware profile.
        device_gib: KV that the device holds.
        kv_dtype: Format of the KV where it is not the type of the weights.
        link_gb_per_s: Overrides the profile's host link, both directions.

    Raises:
        AutotuneError: an input is not valid, or the page lacks a series that the advice rests on.
    """
    geometry = load_geometry(model, kv_dtype=kv_dtype)
    times = ReloadModel(geometry, _machine(hardware, link_gb_per_s))
    return advise_on(
        observe_page(
            page,
            growth_bytes=geometry.growth_bytes,
            device_bytes=round(_positive("the device's KV", device_gib) * GIB),
            weights_bytes=geometry.weights.size_bytes,
            break_even_tokens=times.break_even_tokens(0),
        )
    )


def _machine(name: str, link_gb_per_s: float | None) -> HardwareSpec:
    machine = load_hardware(name)
    if link_gb_per_s is None:
        return machine
    return with_link(machine, _positive("the link's bandwidth", link_gb_per_s) * GB)


def _positive(what: str, value: float) -> float:
    if not 0.0 < value < float("inf"):
        raise ConfigError(f"{what} must be positive", got=f"{value:g}")
    return value
