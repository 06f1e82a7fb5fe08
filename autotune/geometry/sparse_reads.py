"""Query-aware sparse reads: all pages stay, each step reads the few that matter. Bandwidth, not memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from autotune.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SparseReads:
    """What is stored and what one step reads, relative to the plain cache.

    Attributes:
        stored_share: Bytes stored, metadata included; above 1.
        read_share: Bytes read per step: the budget, and the metadata of all pages.
    """

    stored_share: Fraction
    read_share: Fraction


def sparse_reads(context_tokens: int, budget_tokens: int, page_tokens: int = 16) -> SparseReads:
    """Quest: the largest and smallest value of each channel of a page's keys say whether the page may matter.

    Per page that is two vectors, as much as one token's key and value.

    >>> sparse_reads(32_768, 4_096)
    SparseReads(stored_share=Fraction(17, 16), read_share=Fraction(3, 16))

    Raises:
        ConfigError: a size is not positive.

    Source: Tang et al., "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference", arXiv:2406.10774.
    """
    if min(context_tokens, budget_tokens, page_tokens) < 1:
        raise ConfigError("context, budget and page have at least 1 token", got=(context_tokens, budget_tokens))
    metadata = Fraction(1, page_tokens)
    read = min(Fraction(1), Fraction(min(budget_tokens, context_tokens), context_tokens) + metadata)
    return SparseReads(1 + metadata, read)
