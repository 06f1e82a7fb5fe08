"""A fitted model in a policy file: small, and with scikit-learn's own probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from learned_rows import SPAN_S, make_rows

from autotune.core.policy import ClassHazardDocument, ClassHazardSection, load
from autotune.core.reuse import ReuseModel, classify, probability, score_rows
from autotune.core.units import MIB
from autotune.costs.reuse import ReuseSettings, fit_reuse
from autotune.costs.reuse.binning import Bins
from autotune.costs.reuse.horizon import Labelled, as_tables, fit_trees
from autotune.export import save
from autotune.testing.documents import example_learned_document

ROWS = make_rows(6000)


def through_a_file(model: ReuseModel, path: Path) -> tuple[ReuseModel, int]:
    """The model that a policy file holds, and the size of the file in bytes."""
    section = ClassHazardSection.of(model, device_age_s=5.0, rerank_s=2.0)
    save(example_learned_document().model_copy(update={"class_hazard": section}), path)
    document = load(path)
    assert isinstance(document, ClassHazardDocument)
    return document.class_hazard.model(), path.stat().st_size


@pytest.fixture(scope="module")
def model() -> ReuseModel:
    """A model of many trees with small leaves, which uses every feature and makes every pair that it can."""
    fitted = fit_reuse(ROWS, SPAN_S, ReuseSettings(trees=200, min_samples_leaf=5), 0)
    assert isinstance(fitted, ReuseModel)
    return fitted


def test_file_is_far_below_a_mebibyte(model: ReuseModel, tmp_path: Path) -> None:
    """Even 200 trees per horizon, over twice the usual number, fit; a lease can hold a second such model."""
    assert through_a_file(model, tmp_path / "policy.yaml")[1] < 0.4 * MIB


def test_file_decides_alike(model: ReuseModel, tmp_path: Path) -> None:
    """The model from the file gives the same scores and classes as the fitted one."""
    again, _ = through_a_file(model, tmp_path / "policy.yaml")
    assert (score_rows(again.near, ROWS.features) == score_rows(model.near, ROWS.features)).all()
    assert (classify(again, ROWS.features) == classify(model, ROWS.features)).all()


def test_file_has_the_probabilities_of_scikit_learn(model: ReuseModel, tmp_path: Path) -> None:
    """Within 1e-9 of ``predict_proba`` on rows that the trees never saw."""
    bins = Bins.of(ROWS.features, 64)
    labelled = Labelled.of(bins.of_rows(ROWS.features), ROWS.n_blocks, ROWS.reused_within(300.0))
    estimator = fit_trees(labelled, ReuseSettings(), seed=1)
    fitted = as_tables(estimator, labelled, bins, 300.0)
    both = ReuseModel(
        model.features, fitted, fitted, model.near_cuts, model.far_cuts, model.edges_s, model.hazard_per_s
    )
    again, _ = through_a_file(both, tmp_path / "policy.yaml")
    fresh = make_rows(2000, seed=4).features
    expected = estimator.predict_proba(bins.of_rows(fresh).T.astype(np.float64))[:, 1]
    assert np.abs(probability(again.near, score_rows(again.near, fresh)) - expected).max() <= 1e-9
