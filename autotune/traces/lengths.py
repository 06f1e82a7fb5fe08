"""Length distributions as ServeGen writes them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.traces.fields import INT32_MAX, Fault, Malformed

_TOLERANCE = 1e-3
_MAX_PART_TOKENS = INT32_MAX // 8  # so that the sum of the parts of a prompt fits int32


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts.

    Attributes:
        tokens: ``(n,)`` possible counts.
        cumulative: ``(n,)`` probability of each count or one before it; the last is 1.
    """

    tokens: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]

    def draw(self, random: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
        """``(n,)`` independent token counts."""
        places = np.searchsorted(self.cumulative, random.random(n), side="right")
        return self.tokens[np.minimum(places, len(self.tokens) - 1)]


def parse_lengths(text: object) -> Lengths | None:
    """A distribution from text such as ``{13: 0.5, 14: 0.5}``; None where it is empty.

    Raises:
        Malformed: it is no such text, or its probabilities do not add up to 1.
    """
    if not isinstance(text, str):
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be text", text)
    try:
        pairs = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be '{tokens: probability, ...}'", text) from error
    if not isinstance(pairs, dict):
        raise Malformed(Fault.WRONG_TYPE, "a distribution must be '{tokens: probability, ...}'", text)
    if not pairs:
        return None
    if not all(type(tokens) is int and 0 <= tokens <= _MAX_PART_TOKENS for tokens in pairs):
        raise Malformed(Fault.OUT_OF_RANGE, f"token counts must be integers from 0 to {_MAX_PART_TOKENS}", text)
    if not all(type(share) in {int, float} and 0 <= share <= 1 for share in pairs.values()):
        raise Malformed(Fault.OUT_OF_RANGE, "probabilities must be from 0 to 1", text)
    total = float(sum(pairs.values()))
    if abs(total - 1) > _TOLERANCE:
        raise Malformed(Fault.OUT_OF_RANGE, "probabilities must add up to 1", f"{total:g}")
    ordered = sorted(pairs.items())
    cumulative = np.cumsum([share for _, share in ordered])
    return Lengths(np.array([tokens for tokens, _ in ordered], np.int64), cumulative / cumulative[-1])
