"""Length distributions as ServeGen writes them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.traces.fields import INT32_MAX, Fault, Malformed, shown

_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of whole numbers: tokens, or images in a prompt.

    Attributes:
        values: ``(n,)`` possible numbers, ascending.
        cumulative: ``(n,)`` probability of each number or one before it; the last is 1.
    """

    values: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]

    def draw(self, random: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
        """``(n,)`` independent numbers."""
        places = np.searchsorted(self.cumulative, random.random(n), side="right")
        return self.values[np.minimum(places, len(self.values) - 1)]


def parse_lengths(text: object) -> Lengths | None:
    """A distribution from text such as ``{13: 0.5, 14: 0.5}``; None where it is empty.

    Raises:
        Malformed: it is no such text, or its probabilities do not add up to 1.
    """
    if not isinstance(text, str):
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be text", shown(text))
    try:
        pairs = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be '{tokens: probability, ...}'", shown(text)) from error
    if not isinstance(pairs, dict):
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be '{tokens: probability, ...}'", shown(text))
    if not pairs:
        return None
    if not all(type(tokens) is int and 0 <= tokens <= INT32_MAX for tokens in pairs):
        raise Malformed(Fault.OUT_OF_RANGE, f"token counts must be integers from 0 to {INT32_MAX}", shown(text))
    if not all(type(share) in {int, float} and 0 <= share <= 1 for share in pairs.values()):
        raise Malformed(Fault.OUT_OF_RANGE, "probabilities must be from 0 to 1", shown(text))
    total = float(sum(pairs.values()))
    if abs(total - 1) > _TOLERANCE:
        raise Malformed(Fault.OUT_OF_RANGE, "probabilities must add up to 1", f"{total:g}")
    ordered = sorted(pairs.items())
    cumulative = np.cumsum([share for _, share in ordered])
    return Lengths(np.array([tokens for tokens, _ in ordered], np.int64), cumulative / cumulative[-1])


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One kind of content of a prompt.

    Attributes:
        tokens: Of one item.
        items: How many there are in a prompt; None for always one.
    """

    tokens: Lengths
    items: Lengths | None = None

    @property
    def max_tokens(self) -> int:
        """The most tokens that this part can have."""
        return int(self.tokens.values[-1]) * (1 if self.items is None else int(self.items.values[-1]))

    def draw(self, random: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
        """``(n,)`` tokens of this part in ``n`` independent prompts."""
        if self.items is None:
            return self.tokens.draw(random, n)
        counts = self.items.draw(random, n)
        up_to = np.zeros(int(counts.sum()) + 1, np.int64)
        np.cumsum(self.tokens.draw(random, int(counts.sum())), out=up_to[1:])
        ends = np.cumsum(counts)
        sums: npt.NDArray[np.int64] = up_to[ends] - up_to[ends - counts]
        return sums
