"""Which of the layers are streamed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from autotune.core.errors import StreamingError


class Placement(StrEnum):
    """Where the streamed layers lie among those that can be streamed.

    ``EVEN``: spread over all of them, so that the compute of the resident ones between two hides a load. ``FIRST`` and
    ``LAST``: in one row at that end, where the loads follow each other with less compute between them.
    """

    EVEN = "even"
    FIRST = "first"
    LAST = "last"


def resident_count(n_layers: int, resident_frac: float) -> int:
    """Layers that stay on the device: the whole ones in the share p of ``n_layers``.

    Computed in fractions of the decimal number as written: in floating point 0.3 of 10 layers is fewer than 3.

    Raises:
        StreamingError: the share is not within 0 and 1, or the number of layers is negative.
    """
    if n_layers < 0 or not 0.0 <= resident_frac <= 1.0:
        raise StreamingError(
            "the resident share p lies within 0 and 1 of a number of layers", got=f"p {resident_frac}, {n_layers}"
        )
    return int(Fraction(str(resident_frac)) * n_layers)


def streamed_layers(
    candidates: Sequence[int], n_streamed: int, placement: Placement = Placement.EVEN
) -> tuple[int, ...]:
    """The layers that are streamed, in the order in which a step computes them.

    Args:
        candidates: Indices of the layers that can be streamed, ascending.
        n_streamed: How many of them are.
        placement: Which.

    Raises:
        StreamingError: there are not so many candidates.
    """
    n_layers = len(candidates)
    if not 0 <= n_streamed <= n_layers:
        raise StreamingError(f"between 0 and {n_layers} layers can be streamed", got=n_streamed)
    match placement:
        case Placement.EVEN:
            positions = [(2 * i + 1) * n_layers // (2 * n_streamed) for i in range(n_streamed)]
        case Placement.FIRST:
            positions = list(range(n_streamed))
        case Placement.LAST:
            positions = list(range(n_layers - n_streamed, n_layers))
    return tuple(candidates[position] for position in positions)
