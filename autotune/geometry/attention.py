"""Full attention: keys and values of every token, of as many heads as the model stores (MHA, GQA, MQA)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.geometry.kinds import LayerKind
from autotune.geometry.layer import divided
from autotune.geometry.precision import Precision


@dataclass(frozen=True, slots=True)
class FullAttention:
    """``kv_heads * (key_dim + value_dim)`` values per token.

    Attributes:
        kv_heads: Heads whose keys and values are stored.
        key_dim: Values per key and head.
        value_dim: Values per value and head.
        precision: Format of the values.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    precision: Precision

    @property
    def kind(self) -> LayerKind:
        """Full attention."""
        return LayerKind.FULL

    @property
    def values_per_token(self) -> int:
        """Cached values per token."""
        return self.kv_heads * (self.key_dim + self.value_dim)

    @property
    def growth_bytes(self) -> Fraction:
        """Bytes of one more token."""
        return self.precision.value_bytes(self.values_per_token)

    @property
    def fixed_bytes(self) -> int:
        """None."""
        return 0

    def stored_bytes(self, context_tokens: int) -> int:
        """Every token is kept."""
        return self.precision.stored_bytes(self.values_per_token, context_tokens)

    def block_bytes(self, block_tokens: int) -> int:
        """Bytes of one block."""
        return replace(self.precision, residual_tokens=0).stored_bytes(self.values_per_token, block_tokens)

    def in_precision(self, precision: Precision) -> FullAttention:
        """The same in another format."""
        return replace(self, precision=precision)

    def per_rank(self, n_ranks: int) -> FullAttention:
        """Heads are split over ranks."""
        return replace(self, kv_heads=divided(self.kv_heads, n_ranks))
