"""Scores and classes: the packed scalar evaluator, its compiled twin and the batch evaluator against plain sums."""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.decide import reuse
from autotune.core.decide.features import N_FEATURES
from autotune.core.reuse import (
    SCORE_UNIT,
    Calibration,
    HorizonModel,
    ReuseModel,
    classify,
    contributions,
    pack,
    probability,
    score_rows,
)
from autotune.testing.reuse import feature_rows, reuse_models


def plain_score(model: HorizonModel, row: npt.NDArray[np.float64]) -> int:
    """Base plus one entry per table, found by counting cuts."""
    total = model.base
    for table in model.tables:
        i = sum(cut < row[table.first] for cut in table.first_cuts)
        j = 0 if table.second < 0 else sum(cut < row[table.second] for cut in table.second_cuts)
        total += int(table.scores[i, j])
    return total


def plain_class(model: ReuseModel, row: npt.NDArray[np.float64]) -> int:
    """Quartile of the near score, then quartile of the far score within it."""
    near, far = plain_score(model.near, row), plain_score(model.far, row)
    first = sum(cut < near for cut in model.near_cuts)
    return 4 * first + sum(cut < far for cut in model.far_cuts[first])


def evaluate(model: ReuseModel, row: npt.NDArray[np.float64], functions: Any) -> tuple[int, int, int]:
    """Near score, far score and class by the packed tables."""
    packed, bins = pack(model), np.zeros(N_FEATURES, np.int32)
    functions.fill_bins(row, packed.cuts, packed.cuts_at, bins)
    shared = (packed.tables, packed.maps, packed.scores)
    near = functions.score(bins, 0, packed.n_near, packed.near_base, *shared)
    far = functions.score(bins, packed.n_near, len(packed.tables), packed.far_base, *shared)
    return near, far, functions.class_of(near, far, packed.near_cuts, packed.far_cuts)


@given(st.data())
def test_all_evaluators_agree(data: st.DataObject) -> None:
    """Scalar, batch and plain evaluation give the same scores and classes, whole numbers that they are."""
    model = data.draw(reuse_models())
    rows = data.draw(feature_rows(model))
    expected = [(plain_score(model.near, row), plain_score(model.far, row), plain_class(model, row)) for row in rows]
    assert [evaluate(model, row, reuse) for row in rows] == expected
    batch = zip(score_rows(model.near, rows), score_rows(model.far, rows), classify(model, rows), strict=True)
    assert [tuple(map(int, numbers)) for numbers in batch] == expected


class _Compiled:
    """The same functions, compiled."""

    def __init__(self) -> None:
        import numba

        count = numba.njit(reuse.count_below)
        bound = {**reuse.fill_bins.__globals__, "count_below": count}
        self.fill_bins = numba.njit(FunctionType(reuse.fill_bins.__code__, bound, "fill_bins"))
        self.score = numba.njit(reuse.score)
        self.class_of = numba.njit(reuse.class_of)


@pytest.fixture(scope="module")
def compiled() -> _Compiled:
    """The compiled twins."""
    return _Compiled()


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_compiled_evaluator_is_the_same(data: st.DataObject, compiled: _Compiled) -> None:
    """Numba compiles the scalar functions as they stand, and they give the same numbers."""
    model = data.draw(reuse_models())
    for row in data.draw(feature_rows(model)):
        assert evaluate(model, row, compiled) == evaluate(model, row, reuse)


@given(st.data())
def test_contributions_add_up_to_the_score(data: st.DataObject) -> None:
    """The base and what the tables add are the score, and the largest part comes first."""
    model = data.draw(reuse_models())
    row = data.draw(feature_rows(model))[0]
    parts = contributions(model.near, row)
    assert model.near.base + sum(part.score for part in parts) == plain_score(model.near, row)
    sizes = [abs(part.score) for part in parts]
    assert sizes == sorted(sizes, reverse=True)


@given(st.floats(-700.0, 700.0))
def test_probability_is_the_logistic_function(log_odds: float) -> None:
    """Without a calibration a score is log odds in units of 2**-40."""
    model = HorizonModel(60.0, 0, ())
    score = np.array([round(log_odds / SCORE_UNIT)], np.int64)
    assert probability(model, score)[0] == pytest.approx(1.0 / (1.0 + math.exp(-log_odds)), abs=1e-11)


def test_calibration_replaces_the_logistic_function() -> None:
    """Between two points of the table the probability is linear, outside it stays."""
    model = HorizonModel(60.0, 0, (), Calibration((0, 100), (0.2, 0.6)))
    assert probability(model, np.array([-5, 0, 50, 100, 500], np.int64)).tolist() == pytest.approx(
        [0.2, 0.2, 0.4, 0.6, 0.6]
    )
