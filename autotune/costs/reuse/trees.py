"""Trees of depth 2 as tables, exactly.

A leaf of such a tree is reached by at most two comparisons, so a tree is a sum of functions of one or two features, and
so is a sum of trees. Leaf values are rounded to whole units of 2**-40 first; everything after that is whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core.reuse import NO_FEATURE, SCORE_BITS, ScoreTable

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: what it adds, and where.

    Attributes:
        score: In units of 2**-40.
        tests: ``(feature, cut, below)``: the value is at most the cut, or above it.
    """

    score: int
    tests: tuple[tuple[int, float, bool], ...]


def leaves(estimator: Any, cut_of: Callable[[int, float], tuple[int, float]], slope: float = 1.0) -> Iterator[Leaf]:
    """All leaves of a fitted ``HistGradientBoostingClassifier`` of two classes.

    Args:
        estimator: Fitted on finite numbers, without categories.
        cut_of: From a column of the estimator and a threshold to a feature and a cut.
        slope: Factor on what a leaf adds.

    Source: scikit-learn 1.4 to 1.9, ``_predictors[i][0].nodes`` of ``PREDICTOR_RECORD_DTYPE``; a leaf's ``value``
    includes the learning rate, and ``x <= num_threshold`` goes to ``left``.
    """
    for (tree,) in estimator._predictors:
        nodes = tree.nodes
        waiting: list[tuple[int, tuple[tuple[int, float, bool], ...]]] = [(0, ())]
        while waiting:
            at, tests = waiting.pop()
            node = nodes[at]
            if node["is_leaf"]:
                yield Leaf(whole(slope * float(node["value"])), tests)
                continue
            feature, cut = cut_of(int(node["feature_idx"]), float(node["num_threshold"]))
            waiting.append((int(node["right"]), (*tests, (feature, cut, False))))
            waiting.append((int(node["left"]), (*tests, (feature, cut, True))))


def base_score(estimator: Any) -> float:
    """Log odds before any tree."""
    return float(np.ravel(estimator._baseline_prediction)[0])


def whole(log_odds: float) -> int:
    """Log odds in units of 2**-40, rounded to nearest."""
    return round(log_odds * 2.0**SCORE_BITS)


def tables_from(all_leaves: list[Leaf]) -> dict[Pair, ScoreTable]:
    """The sum of all leaves as one table per feature and per pair; a feature alone has the key ``(feature, -1)``."""
    by_pair: dict[Pair, list[Leaf]] = {}
    for leaf in all_leaves:
        by_pair.setdefault(_pair(leaf), []).append(leaf)
    return {pair: _table(pair, some) for pair, some in sorted(by_pair.items()) if pair[0] != NO_FEATURE}


def constant_of(all_leaves: list[Leaf]) -> int:
    """What trees that consist of one leaf add."""
    return sum(leaf.score for leaf in all_leaves if not leaf.tests)


def _pair(leaf: Leaf) -> Pair:
    features = sorted({feature for feature, _, _ in leaf.tests})
    padded = [*features, NO_FEATURE, NO_FEATURE]
    return padded[0], padded[1]


def _table(pair: Pair, some: list[Leaf]) -> ScoreTable:
    cuts = [sorted({cut for leaf in some for f, cut, _ in leaf.tests if f == feature}) for feature in pair]
    scores = np.zeros([len(axis) + 1 for axis in cuts], np.int64)
    for leaf in some:
        scores[tuple(_span(leaf, feature, axis) for feature, axis in zip(pair, cuts, strict=True))] += leaf.score
    return ScoreTable(pair[0], pair[1], tuple(cuts[0]), tuple(cuts[1]), scores)


def _span(leaf: Leaf, feature: int, axis: list[float]) -> slice:
    """The bins of one feature that a leaf covers."""
    start, stop = 0, len(axis) + 1
    for tested, cut, below in leaf.tests:
        if tested == feature and below:
            stop = min(stop, axis.index(cut) + 1)
        elif tested == feature:
            start = max(start, axis.index(cut) + 1)
    return slice(start, stop)


def spread(table: ScoreTable, cuts: tuple[float, ...]) -> npt.NDArray[np.int64]:
    """Scores of a main effect over a finer set of cuts."""
    inner = np.searchsorted(np.array(table.first_cuts), np.array(cuts), side="right")
    finer: npt.NDArray[np.int64] = table.scores[np.concatenate([[0], inner]), 0]
    return finer
