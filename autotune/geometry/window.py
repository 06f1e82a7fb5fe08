"""Sliding windows: a layer that looks back a fixed number of tokens keeps no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.geometry.attention import FullAttention
from autotune.geometry.kinds import LayerKind
from autotune.geometry.precision import Precision


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Full attention over the newest ``kept_tokens`` tokens.

    Attributes:
        attention: Heads, widths and format.
        window_tokens: Width of the window, the token that is computed included.
        kept_tokens: Tokens kept between steps.
    """

    attention: FullAttention
    window_tokens: int
    kept_tokens: int

    @property
    def kind(self) -> LayerKind:
        """A sliding window."""
        return LayerKind.SLIDING

    @property
    def growth_bytes(self) -> Fraction:
        """Nothing, once the window is full."""
        return Fraction(0)

    @property
    def fixed_bytes(self) -> int:
        """None."""
        return 0

    def stored_bytes(self, context_tokens: int) -> int:
        """The newest tokens, as many as are kept."""
        return self.attention.stored_bytes(min(context_tokens, self.kept_tokens))

    def block_bytes(self, block_tokens: int) -> int:
        """A block inside the window is as large as one of full attention."""
        return self.attention.block_bytes(block_tokens)

    def in_precision(self, precision: Precision) -> SlidingWindow:
        """The same in another format."""
        return replace(self, attention=self.attention.in_precision(precision))

    def per_rank(self, n_ranks: int) -> SlidingWindow:
        """Heads are split over ranks."""
        return replace(self, attention=self.attention.per_rank(n_ranks))
