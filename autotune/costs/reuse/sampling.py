"""Fewer rows that stand for all of them: long runs are drawn more often than short ones, and count for less each.

A few runs hold most blocks, so rows drawn alike would tell little about blocks, and blocks drawn alike little about all
the short runs. The chance of a row is as the square root of its blocks, which lies between the two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from autotune.costs.reuse.rows import Blocks, Rows

_ROUNDS = 4


def drawn(rows: Rows, limit: int, rng: np.random.Generator) -> Rows:
    """The rows that have blocks, or about ``limit`` of them; what a row counts for is then no longer whole.

    Args:
        rows: All of them.
        limit: About so many at most.
        rng: Draws.
    """
    chosen, chances = draw(rows.n_blocks, limit, rng)
    if len(chosen) == len(rows):
        return rows
    taken = rows.take(chosen)
    if (chances == 1.0).all():
        return taken
    return replace(taken, n_blocks=taken.n_blocks / chances, event_blocks=taken.event_blocks / chances[taken.event_row])


def draw(blocks: Blocks, limit: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Indices ``(k,)`` of the rows that were drawn, ascending, and the chance that each of them had.

    Each row is drawn by itself, so no order of the rows, however regular, can favour some of them.

    Args:
        blocks: ``(n,)`` blocks of each row; a row without blocks is never drawn.
        limit: About so many are drawn; if there are not more, all are taken with certainty.
        rng: Draws.

    Source: Poisson sampling with the estimate of Horvitz and Thompson, "A Generalization of Sampling Without
    Replacement from a Finite Universe", Journal of the American Statistical Association 47, 1952.
    """
    some = np.flatnonzero(blocks > 0)
    if len(some) <= limit:
        return some, np.ones(len(some))
    chances = _chances(np.sqrt(blocks[some].astype(np.float64)), limit)
    hit = rng.random(len(some)) < chances
    return some[hit], chances[hit]


def _chances(sizes: npt.NDArray[np.float64], limit: int) -> npt.NDArray[np.float64]:
    """In proportion to the sizes, none above 1, and of ``limit`` in sum, or little less."""
    per_size, sure = limit / float(sizes.sum()), 0
    for _ in range(_ROUNDS):
        small = sizes * per_size < 1.0
        n_sure, rest = len(sizes) - int(np.count_nonzero(small)), float(sizes @ small)
        if n_sure in (sure, limit) or rest <= 0.0:
            break
        per_size, sure = (limit - n_sure) / rest, n_sure
    return np.minimum(sizes * per_size, 1.0)
