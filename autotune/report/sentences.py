"""Sentences that the terminal and the report share."""

from __future__ import annotations

from autotune.report.formats import printable
from autotune.search.result import TuneResult


def break_even_sentence(result: TuneResult) -> str:
    """When a load pays, by the cost model alone."""
    if not result.sizes.host_blocks:
        return "There is no host tier, so nothing is loaded."
    if result.break_even_tokens is None:
        return "At these costs loading from the host never pays: recomputing is always quicker."
    return f"Loading from the host pays for runs of {result.break_even_tokens:,} tokens or more."


def as_sentence(text: str) -> str:
    """A text with a capital letter in front and a full stop behind it."""
    text = printable(text.strip())
    if not text:
        return text
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")
