"""Hazards of the classes: events over exposure, censoring, shrinkage and smoothing."""

from __future__ import annotations

import numpy as np
import pytest
from learned_rows import make_rows

from autotune.core.decide.features import N_FEATURES
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES
from autotune.costs.reuse import Rows
from autotune.costs.reuse.hazard import age_edges_s, class_hazards

EDGES = tuple(float(k) for k in range(1, 49))


def waiting_rows(n_blocks: list[int], events: list[tuple[int, float, int]], age_s: float) -> Rows:
    """Rows that all became idle at 0, seen at ``age_s``; events are (row, gap, blocks)."""
    row, gap, blocks = (np.array(column) for column in zip(*events, strict=True))
    return Rows(
        features=np.zeros((len(n_blocks), N_FEATURES)),
        time_s=np.zeros(len(n_blocks)),
        n_blocks=np.array(n_blocks, np.int32),
        event_row=row.astype(np.int32),
        event_gap_s=gap.astype(np.float64),
        event_blocks=blocks.astype(np.int32),
    )


def test_hazard_is_events_over_the_time_that_blocks_waited() -> None:
    """By hand: 2 of 10 blocks come back at 0.5 s, 3 at 1.25 s, 5 still wait at 2 s; without shrinkage."""
    rows = waiting_rows([10], [(0, 0.5, 2), (0, 1.25, 3)], age_s=2.0)
    hazard = class_hazards(rows, np.zeros(1, np.int8), 2.0, EDGES, pseudo_events=1e-12)
    assert hazard[0, 0] == pytest.approx(2 / (8 * 1.0 + 2 * 0.5), rel=1e-5)
    assert hazard[0, 1] == pytest.approx(3 / (5 * 1.0 + 3 * 0.25), rel=1e-5)


def test_an_empty_class_has_the_hazard_of_all() -> None:
    """A class without rows is drawn wholly to the pooled hazard; one with many rows keeps its own."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(20.0, 4000)
    rows = waiting_rows([1] * 4000, [(k, float(gap), 1) for k, gap in enumerate(gaps) if gap < 48.0], age_s=48.0)
    hazard = class_hazards(rows, np.full(4000, 3, np.int8), 48.0, EDGES, pseudo_events=5.0)
    assert hazard.shape == (N_CLASSES, N_AGE_BINS)
    assert hazard[3, :40] == pytest.approx(hazard[7, :40], rel=0.05)
    assert hazard[3, :30].mean() == pytest.approx(1 / 20.0, rel=0.1)


def test_few_events_are_drawn_to_the_pooled_hazard() -> None:
    """A class of one fast block lies between its own hazard and the pooled one."""
    events = [(k, 1.5, 1) for k in range(0, 100, 10)]
    rows = waiting_rows([1] * 101, [*events, (100, 1.01, 1)], age_s=48.0)
    classes = np.array([0] * 100 + [1], np.int8)
    hazard = class_hazards(rows, classes, 48.0, EDGES, pseudo_events=5.0)
    assert hazard[0, 1] < hazard[1, 1] < 0.1 * 1.0 / 0.01


def test_a_class_keeps_its_level_where_it_has_few_events() -> None:
    """Of two classes with one shape, the one that comes back ten times as often does so at every age, sparse or not."""
    rng = np.random.default_rng(1)
    gaps = np.concatenate([rng.exponential(20.0, 300), rng.exponential(200.0, 300)])
    rows = waiting_rows([1] * 600, [(k, float(gap), 1) for k, gap in enumerate(gaps) if gap < 48.0], age_s=48.0)
    hazard = class_hazards(rows, np.repeat(np.array([0, 1], np.int8), 300), 48.0, EDGES, pseudo_events=5.0)
    assert hazard[0, 5:40].mean() / hazard[1, 5:40].mean() == pytest.approx(10.0, rel=0.4)


def test_blocks_of_one_run_are_one_observation() -> None:
    """A run of a hundred blocks moves its class as far as a run of one block does, if all runs are that long."""
    short = waiting_rows([1] * 50, [(k, 3.5, 1) for k in range(5)], age_s=48.0)
    long = waiting_rows([100] * 50, [(k, 3.5, 100) for k in range(5)], age_s=48.0)
    classes = np.resize(np.arange(4, dtype=np.int8), 50)
    np.testing.assert_allclose(
        class_hazards(short, classes, 48.0, EDGES, 5.0), class_hazards(long, classes, 48.0, EDGES, 5.0), rtol=1e-5
    )


def test_sparse_ages_borrow_from_their_neighbours() -> None:
    """Ages at which nothing was seen have the hazard of those around them, not zero."""
    rows = waiting_rows([1] * 400, [(k, 2.5, 1) for k in range(100)], age_s=48.0)
    hazard = class_hazards(rows, np.zeros(400, np.int8), 48.0, EDGES, 5.0)
    assert (hazard > 0.0).all()


def test_edges_span_what_was_seen() -> None:
    """48 ages that grow by one factor, from the smallest gap or 0.1 s to the longest age."""
    rows = make_rows()
    edges = age_edges_s(rows, 3600.0)
    assert len(edges) == 48
    assert edges[0] == pytest.approx(max(0.1, rows.event_gap_s.min()), rel=1e-5)
    assert edges[-1] == pytest.approx(3600.0 - rows.time_s[0], rel=1e-5)
    assert np.diff(np.log(edges)) == pytest.approx(np.log(edges[1] / edges[0]), rel=1e-3)
