"""What every kind of layer can say about its bytes."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, Self

from autotune.geometry.kinds import LayerKind
from autotune.geometry.precision import Precision


class Layer(Protocol):
    """One layer of a model, for one sequence. All figures are exact."""

    @property
    def kind(self) -> LayerKind:
        """What it keeps of the past."""

    @property
    def growth_bytes(self) -> Fraction:
        """Bytes that one more token adds in a long context; 0 where a layer stops growing."""

    @property
    def fixed_bytes(self) -> int:
        """Bytes that do not depend on the context: states of recurrent layers."""

    def stored_bytes(self, context_tokens: int) -> int:
        """Bytes kept for a context of ``context_tokens``, fixed ones included."""

    def block_bytes(self, block_tokens: int) -> int:
        """Bytes of one block of ``block_tokens`` tokens; 0 where nothing is kept per token."""

    def in_precision(self, precision: Precision) -> Self:
        """The same layer with its values per token in another format."""

    def per_rank(self, n_ranks: int) -> Self:
        """What one of ``n_ranks`` tensor-parallel ranks keeps; what cannot be split is kept by every rank."""


def divided(n_heads: int, n_ranks: int) -> int:
    """Heads per rank, at least one: fewer heads than ranks are replicated."""
    return -(-n_heads // n_ranks)
