"""The fit as a whole: what it learns, from what it may learn, and what it does with too little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learned_rows import QUICK, SPAN_S, make_rows, true_odds

from autotune.core.decide.features import DEPTH_TOKENS, FEATURES, GAP_S, N_FEATURES
from autotune.core.reuse import ReuseModel, classify, curves, probability, score_rows
from autotune.costs.reuse import NotEnough, ReuseSettings, Rows, fit_reuse

ROWS = make_rows(8000)


def fitted(rows: Rows = ROWS, settings: ReuseSettings = QUICK, seed: int = 0) -> ReuseModel:
    """A model, which there must be."""
    model = fit_reuse(rows, SPAN_S, settings, seed)
    assert isinstance(model, ReuseModel), model
    return model


@pytest.fixture(scope="module")
def model() -> ReuseModel:
    """The model of the rows above."""
    return fitted()


def test_it_learns_what_drives_reuse(model: ReuseModel) -> None:
    """On new rows the far score orders blocks as the law does that made them."""
    fresh = make_rows(3000, seed=9)
    scores = score_rows(model.far, fresh.features).astype(np.float64)
    assert np.corrcoef(scores, true_odds(fresh.features))[0, 1] > 0.9
    used = {feature for table in model.far.tables for feature in (table.first, table.second)}
    assert {DEPTH_TOKENS, GAP_S} <= used


def test_horizons_are_quantiles_of_the_gaps(model: ReuseModel) -> None:
    """Half of the reused blocks came back within the near horizon, nine tenths within the far one."""
    for horizon, share in ((model.near, 0.5), (model.far, 0.9)):
        soon = ROWS.event_gap_s <= horizon.horizon_s * (1.0 + 1e-5)
        assert ROWS.event_blocks[soon].sum() / ROWS.event_blocks.sum() == pytest.approx(share, abs=0.01)


def test_horizons_end_at_a_share_of_the_time_that_passed() -> None:
    """With gaps as long as the trace, no horizon is longer than 40 % of it."""
    rows = replace(ROWS, event_gap_s=(SPAN_S - ROWS.time_s)[ROWS.event_row])
    model = fitted(rows)
    limit_s = 0.4 * (SPAN_S - ROWS.time_s[0])
    assert model.near.horizon_s == model.far.horizon_s == pytest.approx(limit_s, rel=1e-5)


def test_classes_are_quartiles_of_quartiles(model: ReuseModel) -> None:
    """Each of the 16 classes holds about a sixteenth of the blocks, and later classes come back more."""
    classes = classify(model, ROWS.features)
    shares = np.bincount(classes, weights=ROWS.n_blocks, minlength=16) / ROWS.n_blocks.sum()
    assert shares == pytest.approx(1 / 16, abs=0.03)
    reused = curves(model, np.array([model.far.horizon_s])).reused[:, 0]
    assert reused[12:].mean() > 4 * reused[:4].mean()


def test_curves_match_what_came_back(model: ReuseModel) -> None:
    """Within each class, the share that the curve gives at the far horizon is the share that came back on new rows."""
    fresh = make_rows(20_000, seed=5)
    old = fresh.time_s + model.far.horizon_s <= SPAN_S
    classes, blocks = classify(model, fresh.features)[old], fresh.n_blocks[old]
    came = fresh.reused_within(model.far.horizon_s)[old]
    told = curves(model, np.array([model.far.horizon_s])).reused[:, 0]
    seen = np.bincount(classes, weights=came, minlength=16) / np.bincount(classes, weights=blocks, minlength=16)
    assert np.abs(told - seen).mean() < 0.04


def test_fate_that_is_not_yet_known_does_not_count() -> None:
    """Rows younger than the far horizon change no tree: without a reuse so far they say nothing."""
    horizon_s = fitted().far.horizon_s
    young = np.flatnonzero(ROWS.time_s + 0.9 * horizon_s > SPAN_S)
    assert len(young) > 100
    more = replace(ROWS, n_blocks=np.where(np.isin(np.arange(len(ROWS)), young), 1, ROWS.n_blocks).astype(np.int32))
    events = ~np.isin(ROWS.event_row, young)
    more = replace(
        more,
        event_row=ROWS.event_row[events],
        event_gap_s=ROWS.event_gap_s[events],
        event_blocks=ROWS.event_blocks[events],
    )
    fixed = replace(QUICK, far_quantile=0.899)
    with_young, without = fitted(ROWS, fixed), fitted(more, fixed)
    assert with_young.far.horizon_s == pytest.approx(without.far.horizon_s, rel=0.05)
    mean = [probability(m.far, score_rows(m.far, ROWS.features)).mean() for m in (with_young, without)]
    assert mean[0] == pytest.approx(mean[1], abs=0.02)


def test_absent_features_are_left_out_and_named(model: ReuseModel) -> None:
    """No table uses a feature that nobody told, and the model lists those that it was fitted on."""
    assert "priority" not in model.features
    assert "depth_tokens" in model.features
    without = fitted(ROWS.without(np.array([DEPTH_TOKENS])))
    assert "depth_tokens" not in without.features
    used = {
        f for horizon in (without.near, without.far) for table in horizon.tables for f in (table.first, table.second)
    }
    assert DEPTH_TOKENS not in used


def test_same_seed_same_model() -> None:
    """Drawing rows and fitting depend on the seed alone."""
    few = replace(QUICK, max_rows=2000, max_tree_rows=1000)
    first, again, other = fitted(ROWS, few, 1), fitted(ROWS, few, 1), fitted(ROWS, few, 2)
    assert (classify(first, ROWS.features) == classify(again, ROWS.features)).all()
    assert (first.hazard_per_s == again.hazard_per_s).all()
    assert first.near_cuts == again.near_cuts
    assert first.near_cuts != other.near_cuts


def test_depth_one_has_no_pairs() -> None:
    """Trees of one comparison give main effects only."""
    model = fitted(ROWS, replace(QUICK, max_depth=1))
    assert {table.second for table in (*model.near.tables, *model.far.tables)} == {-1}


def test_half_reused_runs_count_by_their_blocks() -> None:
    """If half of every run comes back, the probability is a half."""
    n = 3000
    rng = np.random.default_rng(0)
    rows = Rows(
        features=np.abs(rng.normal(100.0, 30.0, (n, N_FEATURES))),
        time_s=np.sort(rng.uniform(0.0, SPAN_S, n)),
        n_blocks=np.full(n, 10, np.int32),
        event_row=np.arange(n, dtype=np.int32),
        event_gap_s=np.full(n, 5.0),
        event_blocks=np.full(n, 5, np.int32),
    ).as_known_at(SPAN_S)
    model = fitted(rows)
    assert probability(model.far, score_rows(model.far, rows.features)) == pytest.approx(0.5, abs=0.02)


def _emptied(rows: Rows) -> Rows:
    return replace(
        rows, event_row=rows.event_row[:0], event_gap_s=rows.event_gap_s[:0], event_blocks=rows.event_blocks[:0]
    )


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (_emptied(ROWS), "0 runs of blocks were used again"),
        (ROWS.take(np.arange(0)), "0 runs of blocks were used again"),
        (ROWS.take(np.arange(300)), "are older than the horizon"),
        (ROWS.take(np.arange(20)), "are needed"),
    ],
)
def test_too_little_is_said_in_words(rows: Rows, reason: str) -> None:
    """Without reuse, or with few rows, there is no model but the reason why."""
    told = fit_reuse(rows, SPAN_S, QUICK, 0)
    assert isinstance(told, NotEnough)
    assert reason in told.reason


def test_no_time_has_passed() -> None:
    """Rows that all became idle this very moment have no fate."""
    rows = replace(ROWS, time_s=np.full(len(ROWS), SPAN_S), event_gap_s=np.zeros(len(ROWS.event_row)))
    assert isinstance(fit_reuse(rows, SPAN_S, QUICK, 0), NotEnough)


@pytest.mark.parametrize("value", [-1.0, 0.0, 512.0])
def test_features_that_never_vary_give_one_class_and_a_curve(value: float) -> None:
    """With nothing to tell blocks apart there are no tables, but the curves are those of all blocks."""
    model = fitted(replace(ROWS, features=np.full((len(ROWS), N_FEATURES), value)))
    assert model.near.tables == model.far.tables == ()
    assert model.features == (() if value == -1.0 else FEATURES)
    assert len(set(classify(model, ROWS.features).tolist())) == 1
    assert (model.hazard_per_s > 0.0).any()


def test_all_blocks_come_back_at_once() -> None:
    """Where every block comes back within both horizons the scores are constant and the hazard is high."""
    rows = replace(
        ROWS,
        event_row=np.arange(len(ROWS), dtype=np.int32),
        event_gap_s=np.full(len(ROWS), 0.5),
        event_blocks=ROWS.n_blocks,
    ).as_known_at(SPAN_S)
    model = fitted(rows)
    assert probability(model.near, score_rows(model.near, ROWS.features[:5])).min() > 0.99
    assert curves(model, np.array([5.0])).reused.min() > 0.9


def test_rows_as_they_were_known_earlier() -> None:
    """Neither later rows nor later reuses are in what was known at a moment."""
    half = ROWS.as_known_at(SPAN_S / 2)
    assert half.time_s.max() <= SPAN_S / 2
    assert (half.time_s[half.event_row] + half.event_gap_s <= SPAN_S / 2).all()
    assert 0 < len(half.event_row) < len(ROWS.event_row)


def test_rows_without_blocks_that_count_change_nothing() -> None:
    """Runs that overlap running requests wholly stand among the rows without blocks; the model is the same."""
    rng = np.random.default_rng(3)
    place = np.sort(rng.choice(2 * len(ROWS), len(ROWS), replace=False))
    n_blocks = np.zeros(2 * len(ROWS), np.int32)
    n_blocks[place] = ROWS.n_blocks
    features = rng.normal(size=(2 * len(ROWS), N_FEATURES))
    features[place] = ROWS.features
    time_s = np.interp(np.arange(2 * len(ROWS)), place, ROWS.time_s)
    more = Rows(features, time_s, n_blocks, place[ROWS.event_row].astype(np.int32), ROWS.event_gap_s, ROWS.event_blocks)
    with_them, without = fitted(more), fitted()
    assert with_them.near_cuts == without.near_cuts
    assert (with_them.hazard_per_s == without.hazard_per_s).all()


def test_few_long_runs_do_not_decide() -> None:
    """A pull on the leaves brings probabilities nearer to the average where only a few runs speak for a difference."""
    few = ROWS.take(np.arange(0, len(ROWS), 8))
    free, pulled = (fitted(few, replace(QUICK, l2=l2)) for l2 in (0.0, 100.0))
    spread = [probability(m.near, score_rows(m.near, few.features)).std() for m in (free, pulled)]
    assert spread[1] < 0.8 * spread[0]
