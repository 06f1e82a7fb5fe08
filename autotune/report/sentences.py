"""Sentences that the terminal and the report share."""

from __future__ import annotations

from autotune.report.formats import printable, with_percent
from autotune.report.labels import BASELINE
from autotune.search.result import TuneResult


def gain_sentence(result: TuneResult) -> str:
    """The expected gain with its bounds, and the share of the gap."""
    if result.chosen == BASELINE:
        return "LRU's cost is the baseline, so there is nothing to gain or lose."
    gain = result.gain_frac
    bounds = f"{with_percent(gain.low)} to {with_percent(gain.high)} at {100 * result.confidence:g} % confidence"
    sentence = f"It saves {with_percent(gain.value)} of LRU's cost ({bounds})"
    if result.gap_closed_frac is None:
        return sentence + "."
    return f"{sentence} and closes {with_percent(result.gap_closed_frac)} of the gap to the clairvoyant."


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
