"""How long a decode step takes: computing beside loading what does not stay on the device."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.advise.plan.memory import sequence_bytes
from autotune.advise.plan.request import PlanRequest
from autotune.core.shapes import HardwareSpec
from autotune.costs.overlap import beta_needed, resident_frac_that_hides, step_s
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.residence import exact

_GOAL_OVER_COMPUTE = 1.1


@dataclass(frozen=True, slots=True)
class StepTime:
    """One decode step of all sequences.

    Attributes:
        compute_s: Reading weights and KV from device memory, or the arithmetic, whichever takes longer.
        transfer_s: Loading what is streamed, on each device's own link.
        step_s: Both, fully overlapped.
        step_without_overlap_s: Both, one after the other.
        goal_s: Longest time that is wanted.
        beta_needed: Smallest β that reaches it; ``None`` where no overlap is enough.
        hiding_resident_frac: Smallest p at which loads are no longer than the computation.
    """

    compute_s: float
    transfer_s: float
    step_s: float
    step_without_overlap_s: float
    goal_s: float
    beta_needed: float | None
    hiding_resident_frac: float


def step_time(geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest) -> StepTime | None:
    """Times of one step; ``None`` where weights or the rate of device memory are not known."""
    compute_s = decode_s(geometry, hardware, request)
    if compute_s is None:
        return None
    streamable = request.concurrency * sequence_bytes(geometry, request).streamable
    link = hardware.host_to_device.bytes_per_s
    transfer_s = float(1 - exact(request.resident_frac)) * streamable / link
    goal_s = request.step_goal_s or _GOAL_OVER_COMPUTE * compute_s
    return StepTime(
        compute_s=compute_s,
        transfer_s=transfer_s,
        step_s=step_s(compute_s, transfer_s),
        step_without_overlap_s=step_s(compute_s, transfer_s, 0.0),
        goal_s=goal_s,
        beta_needed=beta_needed(compute_s, transfer_s, goal_s),
        hiding_resident_frac=resident_frac_that_hides(compute_s, link, streamable),
    )


def decode_s(geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest) -> float | None:
    """Seconds of computing one token for each sequence; ``None`` where a figure is missing.

    All KV is read once. Of a mixture of experts, no more weights are read than the tokens of the step can ask for.
    """
    weights = geometry.weights
    if hardware.device_bytes_per_s is None or None in {weights.size_bytes, weights.active, weights.stored}:
        return None
    size, active, stored = weights.size_bytes or 0, weights.active or 0, weights.stored or 1
    read_share = min(1.0, request.concurrency * active / stored)
    kv = request.concurrency * sequence_bytes(geometry, request).total
    read_s = (read_share * size / request.ranks + kv) / hardware.device_bytes_per_s
    flop = 2.0 * active * request.concurrency / request.ranks
    return max(read_s, flop / (hardware.peak_flop_per_s * hardware.linear_efficiency))
