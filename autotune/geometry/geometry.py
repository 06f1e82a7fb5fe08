"""The KV of a whole model, as the layers that it consists of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.geometry.kinds import LayerKind
from autotune.geometry.latent import FP8_DS_MLA, LatentAttention
from autotune.geometry.layer import Layer
from autotune.geometry.precision import precision


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model.

    Attributes:
        stored: How many are kept in memory; ``None`` where unknown.
        active: How many take part in one token's forward pass; ``None`` where unknown.
        size_bytes: Bytes of all of them; ``None`` where unknown.
    """

    stored: int | None
    active: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """What a model keeps of the past, layer by layer.

    Attributes:
        name: Name of the model.
        layers: Its layers, in order.
        n_heads: Query heads per layer.
        head_dim: Values per query and head.
        kv_dtype: Format of the cached values.
        weights: Its weights.
    """

    name: str
    layers: tuple[Layer, ...]
    n_heads: int
    head_dim: int
    kv_dtype: str
    weights: Weights

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes per token where every token costs the same; ``None`` where that depends on the context."""
        steady = self.fixed_bytes == 0 and all(
            layer.kind in {LayerKind.FULL, LayerKind.LATENT, LayerKind.SHARED} for layer in self.layers
        )
        growth = self.growth_bytes
        return int(growth) if steady and growth.denominator == 1 else None

    @property
    def growth_bytes(self) -> Fraction:
        """Bytes that one more token adds in a long context."""
        return sum((layer.growth_bytes for layer in self.layers), Fraction(0))

    @property
    def fixed_bytes(self) -> int:
        """States of one sequence, whatever its context."""
        return sum(layer.fixed_bytes for layer in self.layers)

    def kv_bytes(self, context_tokens: int, batch: int = 1) -> int:
        """Bytes of ``batch`` sequences of ``context_tokens`` tokens each, states included."""
        return batch * sum(self.layer_bytes(context_tokens))

    def layer_bytes(self, context_tokens: int) -> tuple[int, ...]:
        """Bytes per layer of one sequence, ``(n_layers,)``.

        Raises:
            ConfigError: the context is negative.
        """
        if context_tokens < 0:
            raise ConfigError("a context has 0 tokens or more", got=context_tokens)
        return tuple(layer.stored_bytes(context_tokens) for layer in self.layers)

    def block_bytes(self, block_tokens: int) -> int:
        """Bytes of one block of ``block_tokens`` tokens over all layers that keep blocks."""
        return sum(layer.block_bytes(block_tokens) for layer in self.layers)

    def in_precision(self, name: str) -> ModelGeometry:
        """The same model with its KV in another format; states keep theirs.

        Raises:
            ConfigError: the format is not known, or not defined for this model.
        """
        if name == FP8_DS_MLA:
            return replace(self, kv_dtype=name, layers=tuple(_packed(layer) for layer in self.layers))
        chosen = precision(name)
        return replace(self, kv_dtype=name, layers=tuple(layer.in_precision(chosen) for layer in self.layers))

    def decompressed(self) -> ModelGeometry:
        """The same model in an engine that keeps latent attention as keys and values per head."""
        layers = (layer.decompressed if isinstance(layer, LatentAttention) else layer for layer in self.layers)
        return replace(self, layers=tuple(layers))

    def per_rank(self, n_ranks: int) -> ModelGeometry:
        """What one of ``n_ranks`` tensor-parallel ranks keeps.

        Raises:
            ConfigError: there is no rank.
        """
        if n_ranks < 1:
            raise ConfigError("a model runs on at least 1 rank", got=n_ranks)
        return replace(self, layers=tuple(layer.per_rank(n_ranks) for layer in self.layers))


def _packed(layer: Layer) -> Layer:
    if not isinstance(layer, LatentAttention):
        raise ConfigError(f"{FP8_DS_MLA} is a layout of latent attention", got=f"a layer of {layer.kind}")
    return layer.packed()
