"""Capacity by technique, multiplied out: from every head of every token of every layer to what lies on the device.

Each step multiplies the bytes by an exact ratio, and the product of all ratios is the last number. A technique that the
model does not use, or the request does not ask for, has the ratio 1 and is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.advise.plan.memory import STREAMABLE
from autotune.advise.plan.request import PlanRequest
from autotune.geometry.attention import FullAttention
from autotune.geometry.compressed import CompressedAttention
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.kinds import Factor, LayerKind, Technique
from autotune.geometry.latent import LatentAttention
from autotune.geometry.layer import Layer
from autotune.geometry.paging import paged, shared_prefix_blocks
from autotune.geometry.precision import Precision, precision
from autotune.geometry.recurrent import RecurrentState
from autotune.geometry.residence import exact
from autotune.geometry.sharing import SharedLayer
from autotune.geometry.window import SlidingWindow

_MODEL_TECHNIQUES = (
    Technique.GROUPED_HEADS,
    Technique.LATENT,
    Technique.LAYER_SHARING,
    Technique.RECURRENT,
    Technique.SLIDING_WINDOW,
    Technique.COMPRESSED,
    Technique.QUANTISATION,
)
_PLAIN = precision("bfloat16")


@dataclass(frozen=True, slots=True)
class Step:
    """One technique in the product.

    Attributes:
        technique: Which.
        factor: What it reduces.
        ratio: Bytes after it by bytes before it; above 1 where it costs, as paging does.
        bytes_after: Bytes of all sequences after this and all steps before it.
    """

    technique: Technique
    factor: Factor
    ratio: Fraction
    bytes_after: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """From no technique at all to what lies on the devices.

    Attributes:
        start_bytes: Keys and values of every query head in every layer, for every token of every sequence.
        steps: Techniques in use, in order.
    """

    start_bytes: int
    steps: tuple[Step, ...]

    @property
    def end_bytes(self) -> int:
        """What lies on the devices."""
        return self.steps[-1].bytes_after if self.steps else self.start_bytes


def waterfall(geometry: ModelGeometry, request: PlanRequest) -> Waterfall:
    """The product of all techniques that model and request use."""
    start = _model_bytes(geometry, request, frozenset())
    stages = [
        (t, _model_bytes(geometry, request, frozenset(_MODEL_TECHNIQUES[: i + 1])))
        for i, t in enumerate(_MODEL_TECHNIQUES)
    ]
    blocks = paged(request.context_tokens, request.block_tokens).blocks
    in_blocks = request.concurrency * geometry.kv_bytes(blocks * request.block_tokens)
    stages.append((Technique.PAGING, in_blocks))
    shared = _shared(request, blocks)
    stages.append((Technique.PREFIX_SHARING, math.ceil(in_blocks * shared)))
    stages.append((Technique.OFFLOAD, math.ceil(in_blocks * shared * _on_device(geometry, request, blocks))))
    return Waterfall(start, tuple(_steps(start, stages)))


def _steps(start: int, stages: list[tuple[Technique, int]]) -> list[Step]:
    steps, before = [], start
    for technique, after in stages:
        if after != before and before:
            steps.append(Step(technique, technique.factor, Fraction(after, before), after))
        before = after
    return steps


def _shared(request: PlanRequest, blocks: int) -> Fraction:
    kept = shared_prefix_blocks(
        request.shared_prefix_tokens, request.context_tokens, request.concurrency, request.block_tokens
    )
    return Fraction(kept, request.concurrency * blocks)


def _on_device(geometry: ModelGeometry, request: PlanRequest, blocks: int) -> Fraction:
    tokens = blocks * request.block_tokens
    total = geometry.kv_bytes(tokens)
    streamable = sum(layer.stored_bytes(tokens) for layer in geometry.layers if layer.kind in STREAMABLE)
    return 1 - (1 - exact(request.resident_frac)) * Fraction(streamable, total) if total else Fraction(1)


def _model_bytes(geometry: ModelGeometry, request: PlanRequest, used: frozenset[Technique]) -> int:
    """Bytes of all sequences when the model used only these techniques."""
    attending = next((layer for layer in geometry.layers if layer.kind is LayerKind.FULL), None)
    view = _View(geometry.n_heads, request.context_tokens, used, attending)
    return request.concurrency * sum(view.layer_bytes(layer) for layer in geometry.layers)


@dataclass(frozen=True, slots=True)
class _View:
    """A model that uses only some of its techniques.

    Attributes:
        n_heads: Query heads per layer.
        tokens: The context.
        used: Techniques in use.
        attending: A layer of full attention of the model, which a recurrent one stands in for.
    """

    n_heads: int
    tokens: int
    used: frozenset[Technique]
    attending: Layer | None

    def layer_bytes(self, layer: Layer) -> int:
        """Bytes of one layer of one sequence."""
        match layer:
            case SharedLayer():
                n_bytes = 0 if Technique.LAYER_SHARING in self.used else self.layer_bytes(layer.own)
            case RecurrentState():
                stands_in = None if Technique.RECURRENT in self.used else self.attending
                n_bytes = self.layer_bytes(stands_in) if stands_in else layer.fixed_bytes
            case SlidingWindow():
                windowed = Technique.SLIDING_WINDOW in self.used
                tokens = min(self.tokens, layer.kept_tokens) if windowed else self.tokens
                n_bytes = self._heads(layer.attention, tokens)
            case LatentAttention():
                n_bytes = self._latent(layer)
            case CompressedAttention():
                n_bytes = self._entries(layer)
            case FullAttention():
                n_bytes = self._heads(layer, self.tokens)
            case _:
                n_bytes = layer.stored_bytes(self.tokens)
        return n_bytes

    def _heads(self, layer: FullAttention, tokens: int) -> int:
        heads = layer.kv_heads if Technique.GROUPED_HEADS in self.used else max(self.n_heads, layer.kv_heads)
        return replace(layer, kv_heads=heads, precision=self._precision(layer.precision)).stored_bytes(tokens)

    def _latent(self, layer: LatentAttention) -> int:
        if Technique.LATENT not in self.used:
            return self._heads(layer.decompressed, self.tokens)
        if Technique.QUANTISATION in self.used:
            return layer.stored_bytes(self.tokens)
        return layer.in_precision(self._precision(layer.precision)).stored_bytes(self.tokens)

    def _entries(self, layer: CompressedAttention) -> int:
        """One vector is key and value, for all heads; without sharing each query head had its own pair."""
        if Technique.COMPRESSED in self.used:
            quantised = Technique.QUANTISATION in self.used
            return (layer if quantised else layer.in_precision(_PLAIN)).stored_bytes(self.tokens)
        vectors = 1 if Technique.GROUPED_HEADS in self.used else 2 * self.n_heads
        return _PLAIN.stored_bytes(vectors * layer.entry_values, self.tokens)

    def _precision(self, own: Precision) -> Precision:
        wide = own.bits_per_value >= _PLAIN.bits_per_value
        return own if wide or Technique.QUANTISATION in self.used else _PLAIN
