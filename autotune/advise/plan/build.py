"""The plan: what fits, how fast it is, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.advise.plan.memory import (
    Capacity,
    DeviceMemory,
    SequenceBytes,
    capacities,
    device_memory,
    sequence_bytes,
)
from autotune.advise.plan.options import Option, options
from autotune.advise.plan.reload import ReloadModel, ReloadPoint
from autotune.advise.plan.request import PlanRequest
from autotune.advise.plan.step import StepTime, step_time
from autotune.advise.plan.waterfall import Waterfall, waterfall
from autotune.core.shapes import HardwareSpec
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.kinds import LayerKind
from autotune.geometry.paging import Paged, paged


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one kind.

    Attributes:
        kind: What they keep of the past.
        layers: How many.
        kv_bytes: What they keep of one sequence.
        block_bytes: What they keep of one block.
    """

    kind: LayerKind
    layers: int
    kv_bytes: int
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether one thing fits.

    Attributes:
        what: What.
        needed_bytes: What it takes.
        available_bytes: What there is.
        fits: Whether that is enough.
        remedy: What would help where it is not.
    """

    what: str
    needed_bytes: int
    available_bytes: int
    fits: bool
    remedy: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A model under a load on a machine.

    Attributes:
        model: Name of the model.
        hardware: Name of the machine.
        kv_dtype: Format of the KV.
        request: What was asked for.
        kv_bytes: Exact KV of all sequences, without the slots that paging wastes.
        kv_bytes_per_sequence: The same of one.
        kv_bytes_per_token: Bytes per token where every token costs the same; ``None`` where that depends.
        growth_bytes_per_token: Bytes that one more token adds in a long context.
        fixed_bytes_per_sequence: States, whatever the context.
        block_bytes: One block over all layers.
        paging: Blocks of a sequence, and slots that hold nothing.
        groups: Layers by kind.
        sequence: KV of one sequence on one device.
        memory: Bytes per device and on the host.
        fits: What fits and what does not.
        capacities: Sequences that fit, by share that stays on the device.
        step: Time of a decode step; ``None`` where a figure is missing.
        reload: Reload against recompute of the whole context from nothing, and of its second half.
        waterfall: Capacity by technique, multiplied out.
        options: Techniques of the engine that are not in use.
        notes: What was assumed or left out.
    """

    model: str
    hardware: str
    kv_dtype: str
    request: PlanRequest
    kv_bytes: int
    kv_bytes_per_sequence: int
    kv_bytes_per_token: int | None
    growth_bytes_per_token: float
    fixed_bytes_per_sequence: int
    block_bytes: int
    paging: Paged
    groups: tuple[LayerGroup, ...]
    sequence: SequenceBytes
    memory: DeviceMemory
    fits: tuple[Fit, ...]
    capacities: tuple[Capacity, ...]
    step: StepTime | None
    reload: tuple[ReloadPoint, ...]
    waterfall: Waterfall
    options: tuple[Option, ...]
    notes: tuple[str, ...]


def build_plan(geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest) -> Plan:
    """Plan a model under a load on a machine.

    Raises:
        ConfigError: the request is out of range, or the size of the weights is not known.
    """
    request.check()
    each = sequence_bytes(geometry, request)
    memory = device_memory(geometry, hardware, request)
    step = step_time(geometry, hardware, request)
    return Plan(
        model=geometry.name,
        hardware=hardware.name,
        kv_dtype=geometry.kv_dtype,
        request=request,
        kv_bytes=geometry.kv_bytes(request.context_tokens, request.concurrency),
        kv_bytes_per_sequence=geometry.kv_bytes(request.context_tokens),
        kv_bytes_per_token=geometry.kv_bytes_per_token,
        growth_bytes_per_token=float(geometry.growth_bytes),
        fixed_bytes_per_sequence=geometry.fixed_bytes,
        block_bytes=geometry.block_bytes(request.block_tokens),
        paging=paged(request.context_tokens, request.block_tokens),
        groups=_groups(geometry, request),
        sequence=each,
        memory=memory,
        fits=_fits(memory, each, request, step),
        capacities=capacities(each, memory.pool_bytes, request),
        step=step,
        reload=_reload(geometry, hardware, request),
        waterfall=waterfall(geometry, request),
        options=options(geometry, request),
        notes=_notes(geometry, hardware, request, step),
    )


def _groups(geometry: ModelGeometry, request: PlanRequest) -> tuple[LayerGroup, ...]:
    kinds = dict.fromkeys(layer.kind for layer in geometry.layers)
    found = []
    for kind in kinds:
        layers = [layer for layer in geometry.layers if layer.kind is kind]
        kv = sum(layer.stored_bytes(request.context_tokens) for layer in layers)
        found.append(
            LayerGroup(kind, len(layers), kv, sum(layer.block_bytes(request.block_tokens) for layer in layers))
        )
    return tuple(found)


def _fits(memory: DeviceMemory, each: SequenceBytes, request: PlanRequest, step: StepTime | None) -> tuple[Fit, ...]:
    room = memory.usable_bytes - memory.weights_bytes - memory.workspace_bytes
    kv = memory.resident_bytes + memory.buffer_bytes
    found = [
        _fit(
            "weights and workspace on the device",
            memory.weights_bytes + memory.workspace_bytes,
            memory.usable_bytes,
            "more devices (--devices), or a smaller type of weights",
        ),
        _fit(
            "one sequence on the device", each.total, max(0, room), "a shorter context, KV in fewer bits, or p below 1"
        ),
        _fit("all sequences on the device", kv, max(0, room), _remedy(memory, each, request, step)),
    ]
    if request.host_bytes is not None:
        remedy = "more host memory, or a larger p"
        found.append(_fit("streamed KV on the host", memory.host_pinned_bytes, request.host_bytes, remedy))
    return tuple(found)


def _fit(what: str, needed: int, available: int, remedy: str) -> Fit:
    fits = needed <= available
    return Fit(what, needed, available, fits, "" if fits else remedy)


def _remedy(memory: DeviceMemory, each: SequenceBytes, request: PlanRequest, step: StepTime | None) -> str:
    """What would make all sequences fit, the share that would first."""
    enough = [
        c.resident_frac
        for c in capacities(each, memory.pool_bytes, request)
        if c.sequences is None or c.sequences >= request.concurrency
    ]
    if not enough:
        return "fewer sequences, KV in fewer bits, or more devices"
    if step is None:
        return f"p {enough[0]} would fit"
    hides = float(enough[0]) >= step.hiding_resident_frac
    return f"p {enough[0]} would fit, and its loads would be {'hidden' if hides else 'longer than the computation'}"


def _reload(geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest) -> tuple[ReloadPoint, ...]:
    if not geometry.weights.active:
        return ()
    model = ReloadModel(geometry, hardware, request.ranks)
    half = request.context_tokens // 2
    points = [model.point(request.context_tokens)]
    return (*points, model.point(request.context_tokens - half, half)) if half else tuple(points)


def _notes(
    geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest, step: StepTime | None
) -> tuple[str, ...]:
    notes = [
        f"an engine allocates its pool at the start, {request.memory_frac:g} of the device's memory with weights: what "
        "a technique saves shows in the pool's use, not in nvidia-smi",
        f"workspace of {request.workspace_bytes / 2**30:g} GiB per device is an assumption",
        "pinned host memory is rounded up to powers of two per layer by PyTorch's allocator",
    ]
    if step is None:
        notes.append("no time of a step: the rate of device memory or the active weights are not known")
    if not geometry.weights.active:
        notes.append("no reload against recompute: the active weights are not known")
    if request.ranks > 1:
        notes.append(f"{request.ranks} devices share heads and weights; each has its own link to the host")
    if hardware.host_to_device.latency_s:
        notes.append("loads of a step are counted by bandwidth alone")
    return tuple(notes)
