"""Cross-layer sharing: a layer that reads the keys and values of an earlier one and keeps none of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.geometry.kinds import LayerKind
from autotune.geometry.layer import Layer
from autotune.geometry.precision import Precision


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """A layer without KV of its own.

    Attributes:
        own: What it would keep if it did not share.
    """

    own: Layer

    @property
    def kind(self) -> LayerKind:
        """Shared."""
        return LayerKind.SHARED

    @property
    def growth_bytes(self) -> Fraction:
        """Nothing."""
        return Fraction(0)

    @property
    def fixed_bytes(self) -> int:
        """None."""
        return 0

    def stored_bytes(self, context_tokens: int) -> int:  # noqa: D102
        return 0

    def block_bytes(self, block_tokens: int) -> int:  # noqa: D102
        return 0

    def in_precision(self, precision: Precision) -> SharedLayer:
        """The same, with what it would keep in another format."""
        return replace(self, own=self.own.in_precision(precision))

    def per_rank(self, n_ranks: int) -> SharedLayer:
        """The same, with what one rank would keep."""
        return replace(self, own=self.own.per_rank(n_ranks))


def share_across(layers: tuple[Layer, ...], group_layers: int) -> tuple[Layer, ...]:
    """Layers of which the first of every ``group_layers`` keeps KV for its group (cross-layer attention).

    Source: Brandon et al., "Reducing Transformer Key-Value Cache Size with Cross-Layer Attention", arXiv:2405.12981.

    Raises:
        ConfigError: the group is not positive.
    """
    if group_layers < 1:
        raise ConfigError("layers share in groups of at least 1", got=group_layers)
    return tuple(layer if i % group_layers == 0 else SharedLayer(layer) for i, layer in enumerate(layers))
