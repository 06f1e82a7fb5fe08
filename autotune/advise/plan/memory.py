"""Where the bytes of a plan lie: weights, workspace, resident KV and buffers on the device, streamed KV on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from autotune.advise.plan.request import SHARES, PlanRequest
from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.kinds import LayerKind
from autotune.geometry.paging import paged
from autotune.geometry.residence import exact, max_sequences

STREAMABLE = frozenset({LayerKind.FULL, LayerKind.LATENT})


@dataclass(frozen=True, slots=True)
class SequenceBytes:
    """KV of one sequence on one device, in whole blocks.

    Attributes:
        streamable: What may be streamed layer by layer: layers that keep every token.
        pinned: What always stays: windows, states, compressed entries.
        largest_layer: Streamable bytes of the largest layer, the size of a buffer.
        streamable_layers: How many layers may be streamed.
    """

    streamable: int
    pinned: int
    largest_layer: int
    streamable_layers: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.streamable + self.pinned


@dataclass(frozen=True, slots=True)
class Capacity:
    """Sequences that fit when a share of each stays on the device.

    Attributes:
        resident_frac: p, as written.
        sequences: How many; ``None`` where device memory sets no limit.
    """

    resident_frac: str
    sequences: int | None


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes per device at the plan's concurrency.

    Attributes:
        total_bytes: Memory of the device.
        usable_bytes: What the engine may fill.
        weights_bytes: Weights of one rank.
        workspace_bytes: Neither weights nor KV.
        pool_bytes: What is left for KV; an engine allocates all of it at its start, whatever is in use later.
        resident_bytes: KV that stays on the device.
        buffer_bytes: Buffers for layers that are streamed.
        host_bytes: KV on the host, over all devices.
        host_pinned_bytes: The same in pinned allocations that are rounded up to powers of two, as PyTorch's are.
    """

    total_bytes: int
    usable_bytes: int
    weights_bytes: int
    workspace_bytes: int
    pool_bytes: int
    resident_bytes: int
    buffer_bytes: int
    host_bytes: int
    host_pinned_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Most that is in use at once."""
        return self.weights_bytes + self.workspace_bytes + self.resident_bytes + self.buffer_bytes

    @property
    def fits(self) -> bool:
        """Whether that is within what may be used."""
        return self.peak_bytes <= self.usable_bytes


def sequence_bytes(geometry: ModelGeometry, request: PlanRequest) -> SequenceBytes:
    """KV of one sequence on one of the devices."""
    whole_blocks = paged(request.context_tokens, request.block_tokens).blocks * request.block_tokens
    layers = geometry.per_rank(request.ranks).layers
    streamable = [layer.stored_bytes(whole_blocks) for layer in layers if layer.kind in STREAMABLE]
    pinned = sum(layer.stored_bytes(whole_blocks) for layer in layers if layer.kind not in STREAMABLE)
    return SequenceBytes(sum(streamable), pinned, max(streamable, default=0), len(streamable))


def device_memory(geometry: ModelGeometry, hardware: HardwareSpec, request: PlanRequest) -> DeviceMemory:
    """Bytes per device and on the host.

    Raises:
        ConfigError: the size of the weights is not known.
    """
    each, n_sequences = sequence_bytes(geometry, request), request.concurrency
    share = exact(request.resident_frac)
    weights = weights_bytes(geometry, request.ranks)
    usable = int(exact(request.memory_frac) * hardware.device_memory_bytes)
    streamed = math.ceil((1 - share) * each.streamable)
    streamed_layers = math.ceil((1 - share) * each.streamable_layers)
    per_layer = -(-streamed * n_sequences // streamed_layers) if streamed_layers else 0
    return DeviceMemory(
        total_bytes=hardware.device_memory_bytes,
        usable_bytes=usable,
        weights_bytes=weights,
        workspace_bytes=request.workspace_bytes,
        pool_bytes=max(0, usable - weights - request.workspace_bytes),
        resident_bytes=n_sequences * (each.total - streamed),
        buffer_bytes=n_sequences * buffer_bytes(each, request, share),
        host_bytes=request.ranks * n_sequences * streamed,
        host_pinned_bytes=request.ranks * streamed_layers * _next_power_of_two(per_layer),
    )


def weights_bytes(geometry: ModelGeometry, ranks: int) -> int:
    """Weights of one rank.

    Raises:
        ConfigError: their size is not known.
    """
    if geometry.weights.size_bytes is None:
        raise ConfigError(
            f"a plan needs the size of the weights of {geometry.name}",
            got="none: they are not counted for this family, and no index of weight files lies beside config.json",
            remedy="give it with --weights-gib",
        )
    return -(-geometry.weights.size_bytes // ranks)


def buffer_bytes(each: SequenceBytes, request: PlanRequest, share: Fraction) -> int:
    """Buffers per sequence: one per streamed layer in flight and one in use, none where nothing is streamed."""
    if share == 1 or not each.streamable:
        return 0
    streamed_layers = math.ceil((1 - share) * each.streamable_layers)
    return min(request.prefetch_depth + 1, streamed_layers) * each.largest_layer


def capacities(each: SequenceBytes, pool_bytes: int, request: PlanRequest) -> tuple[Capacity, ...]:
    """Sequences that fit at each share, in exact arithmetic."""
    shares = dict.fromkeys((*SHARES, request.resident_frac))
    ordered = sorted(shares, key=exact, reverse=True)
    return tuple(Capacity(share, _sequences(each, pool_bytes, request, share)) for share in ordered)


def _sequences(each: SequenceBytes, pool_bytes: int, request: PlanRequest, share: str) -> int | None:
    besides = each.pinned + buffer_bytes(each, request, exact(share))
    return max_sequences(pool_bytes, each.streamable, share, besides)


def _next_power_of_two(n_bytes: int) -> int:
    return 1 << (n_bytes - 1).bit_length() if n_bytes else 0
