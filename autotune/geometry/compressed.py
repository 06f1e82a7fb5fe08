"""Compressed attention: entries that stand for several tokens, beside a short window of plain ones.

Keys and values are one vector. Layers of sparse attention keep an index beside their entries, from which the few that
a query reads are chosen.
Source: DeepSeek-V4 in transformers 5.19, models/deepseek_v4/modeling_deepseek_v4.py (DeepseekV4HCACache, -CSACache).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from autotune.geometry.kinds import LayerKind
from autotune.geometry.precision import Precision


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """A window of tokens, and one entry per ``tokens_per_entry`` tokens.

    Attributes:
        kind: Sliding where there are no entries, else sparse or heavily compressed.
        entry_bytes: Bytes of one entry, and of one token of the window.
        window_tokens: Tokens of the window that are kept.
        tokens_per_entry: Tokens that an entry stands for; 0 without entries.
        index_bytes: Bytes of an entry in the index; 0 without one.
        entry_values: Values of one entry.
        index_values: Values of an entry in the index.
    """

    kind: LayerKind
    entry_bytes: Fraction
    window_tokens: int
    tokens_per_entry: int
    index_bytes: Fraction
    entry_values: int
    index_values: int

    @property
    def growth_bytes(self) -> Fraction:
        """Share of an entry that one more token adds."""
        if not self.tokens_per_entry:
            return Fraction(0)
        return (self.entry_bytes + self.index_bytes) / self.tokens_per_entry

    @property
    def fixed_bytes(self) -> int:
        """None that would not grow at first."""
        return 0

    def stored_bytes(self, context_tokens: int) -> int:
        """The window, and the entries that are complete."""
        entries = context_tokens // self.tokens_per_entry if self.tokens_per_entry else 0
        window = self.entry_bytes * min(context_tokens, self.window_tokens)
        return math.ceil(window + (self.entry_bytes + self.index_bytes) * entries)

    def block_bytes(self, block_tokens: int) -> int:
        """Bytes of the entries of one block; the window is not kept in blocks of the context."""
        return math.ceil(self.growth_bytes * block_tokens)

    def in_precision(self, precision: Precision) -> CompressedAttention:
        """The same in another format."""
        return replace(
            self,
            entry_bytes=precision.value_bytes(self.entry_values),
            index_bytes=precision.value_bytes(self.index_values),
        )

    def per_rank(self, n_ranks: int) -> CompressedAttention:  # noqa: D102
        return self
