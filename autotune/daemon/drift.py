"""Whether the load is no longer the one that the policy was tuned on.

Three things are watched. Reuse gaps and lengths of prompts are compared with those of the last search, as distributions
over bins: the largest difference of the cumulated shares (Kolmogorov and Smirnov) must exceed what chance explains and
a floor, since records of one conversation are alike and chance alone explains less than it seems. The hit rate is
compared with the prediction: it must lie outside its bounds by more than two points. Whatever it is, it must last for
three looks in a row.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autotune.daemon.jobs import Share

GAP_EDGES_S = tuple(0.1 * 2.0 ** (step / 2) for step in range(41))  # 0.1 s to 29 h
PROMPT_EDGES_TOKENS = tuple(32.0 * 2.0 ** (step / 2) for step in range(31))  # 32 to 1 M
_FLOOR = 0.15
_HIT_FLOOR = 0.02
_MIN_COUNT = 200.0
_REFERENCE_COUNT = 1000.0
_LOOKS = 3
_FORGET = 0.98  # per look: a few minutes at the usual interval


def binned(values: Iterable[float], edges: Sequence[float]) -> tuple[float, ...]:
    """Counts between edges, with open ends: one more than there are edges."""
    counts = [0.0] * (len(edges) + 1)
    for value in values:
        counts[bisect_right(edges, value)] += 1.0
    return tuple(counts)


def differ(reference: Sequence[float], recent: Sequence[float], confidence: float) -> float | None:
    """Largest difference of the cumulated shares where it is no chance and above the floor, else ``None``.

    Source: Smirnov's asymptotic distribution, in Conover, Practical Nonparametric Statistics, 3rd ed., section 6.3.
    """
    n, m = sum(reference), sum(recent)
    if len(reference) != len(recent) or min(n, m) < _MIN_COUNT:
        return None
    distance = cumulated = 0.0
    for old, new in zip(reference, recent, strict=True):
        cumulated += new / m - old / n
        distance = max(distance, abs(cumulated))
    critical = math.sqrt(-0.5 * math.log((1.0 - confidence) / 2.0)) * math.sqrt((n + m) / (n * m))
    return distance if distance > max(_FLOOR, critical) else None


@dataclass(slots=True)
class DriftWatch:
    """Remembers what the last search saw, and what comes now.

    Attributes:
        confidence: How sure a change must be.
        gaps: Reuse gaps that the last search saw, by bin; empty = none ran yet.
        prompts: Lengths of prompts that it saw, by bin.
    """

    confidence: float
    gaps: tuple[float, ...] = ()
    prompts: tuple[float, ...] = ()
    _recent_gaps: list[float] = field(default_factory=lambda: [0.0] * (len(GAP_EDGES_S) + 1))
    _recent_prompts: list[float] = field(default_factory=lambda: [0.0] * (len(PROMPT_EDGES_TOKENS) + 1))
    _lasts: dict[str, int] = field(default_factory=dict)

    def observe(self, gaps_s: Iterable[float], prompt_tokens: Iterable[float]) -> None:
        """Take one round's reuse gaps and lengths of prompts; older ones fade."""
        gaps, prompts = binned(gaps_s, GAP_EDGES_S), binned(prompt_tokens, PROMPT_EDGES_TOKENS)
        for recent, new in ((self._recent_gaps, gaps), (self._recent_prompts, prompts)):
            for position, count in enumerate(new):
                recent[position] = recent[position] * _FORGET + count
        self.gaps, self.prompts = _completed(self.gaps, gaps), _completed(self.prompts, prompts)

    @property
    def complete(self) -> bool:
        """Whether what the last search saw is known well enough to be written down."""
        return all(not each or sum(each) >= _REFERENCE_COUNT for each in (self.gaps, self.prompts))

    def settle(self) -> None:
        """A search begins: what comes now is what it saw."""
        self.gaps, self.prompts = tuple(self._recent_gaps), tuple(self._recent_prompts)
        self._lasts.clear()

    def reason(self, hit_frac: float | None, predicted: Share | None) -> str | None:
        """Why to tune again before the time, once it has lasted; ``None`` = no reason."""
        found = {
            "reuse gaps": differ(self.gaps, self._recent_gaps, self.confidence),
            "lengths of prompts": differ(self.prompts, self._recent_prompts, self.confidence),
            "the hit rate": _off(hit_frac, predicted),
        }
        for name, size in found.items():
            self._lasts[name] = self._lasts.get(name, 0) + 1 if size is not None else 0
        for name, size in found.items():
            if size is not None and self._lasts[name] >= _LOOKS:
                return f"the load changed: {name} moved by {100 * size:.0f} points"
        return None


def _completed(reference: tuple[float, ...], new: Sequence[float]) -> tuple[float, ...]:
    """What a search saw, with what came right after it where it saw little."""
    if not reference or sum(reference) >= _REFERENCE_COUNT:
        return reference
    return tuple(old + added for old, added in zip(reference, new, strict=True))


def _off(hit_frac: float | None, predicted: Share | None) -> float | None:
    if hit_frac is None or predicted is None:
        return None
    outside = max(predicted.low - hit_frac, hit_frac - predicted.high, 0.0)
    return outside if outside > _HIT_FLOOR else None
