"""Whatever the rows: a valid model that a document can hold, or a reason why there is none."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.decide.features import N_FEATURES
from autotune.core.policy import ClassHazardSection
from autotune.core.reuse import ReuseModel, classify, gain_table
from autotune.costs.reuse import NotEnough, ReuseSettings, Rows, fit_reuse

SMALL = ReuseSettings(trees=3, min_samples_leaf=2, min_rows=2, min_events=1)


@st.composite
def few_rows(draw: st.DrawFn) -> Rows:
    """A few rows with equal times, no or huge gaps, runs without blocks, and features that hardly vary."""
    n = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    times = draw(st.sampled_from([np.zeros(n), np.linspace(0.0, 50.0, n), np.linspace(0.0, 1e6, n)]))
    values = draw(st.sampled_from([[-1.0], [0.0, 1.0], [-1.0, 5e-324, 1e300], [1.0, 1.0 + 2e-16], [-0.0, 0.0]]))
    n_blocks = rng.choice(draw(st.sampled_from([[1], [0, 1, 7], [1_000_000], [0]])), n).astype(np.int32)
    rows = np.flatnonzero(rng.random(n) < draw(st.sampled_from([0.1, 0.5, 1.0])))
    gaps = rng.choice(draw(st.sampled_from([[0.0], [1.0, 2.0], [0.0, 1e-9, 1e5]])), len(rows))
    return Rows(
        features=rng.choice(values, (n, N_FEATURES)),
        time_s=times,
        n_blocks=n_blocks,
        event_row=rows.astype(np.int32),
        event_gap_s=gaps,
        event_blocks=np.maximum(n_blocks[rows], 1).astype(np.int32),
    )


@settings(max_examples=150)
@given(few_rows(), st.sampled_from([0.0, 50.0, 1e5, 1e6]))
def test_any_rows_give_a_model_or_a_reason(rows: Rows, later_s: float) -> None:
    """Nothing crashes, and what comes out classifies rows, has finite gains and fits into a document."""
    now_s = rows.time_s.max(initial=0.0) + later_s
    known = rows.as_known_at(now_s)
    model = fit_reuse(known, now_s, SMALL, seed=0)
    if isinstance(model, NotEnough):
        assert model.reason
        return
    assert isinstance(model, ReuseModel)
    classes = classify(model, rows.features)
    assert ((classes >= 0) & (classes < 16)).all()
    gains = gain_table(model, 1.0)
    assert (np.isfinite(gains) & (gains >= 0.0)).all()
    ClassHazardSection.of(model, device_age_s=0.0, rerank_s=1.0)
