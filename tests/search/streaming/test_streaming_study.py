"""The search over p, d, placement and batch, on an engine that takes as long as the recurrence says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import SearchError
from autotune.core.policy import load
from autotune.core.streaming import GenerationSetting, Placement, resident_count
from autotune.export import save
from autotune.report.streaming.page import render_streaming_report, summary_sentences
from autotune.search.streaming import StreamingResult, StreamingSpace, make_streaming_document
from autotune.search.streaming.study import tune_streaming

LAYER_BYTES = 1_000_000  # of one sequence
BUDGET = 8 * LAYER_BYTES


def tuned(engine: Any, budget_bytes: int = BUDGET, trials: int = 30, **options: Any) -> StreamingResult:
    """A search with the engine's own workload."""
    space = StreamingSpace(budget_bytes, max_depth=3, max_batch=4)
    return tune_streaming(engine, space, engine.workload, trials=trials, **options)


def test_nothing_that_was_run_exceeds_the_budget(engine: Any) -> None:
    """Every setting tried, the fixed ones included, keeps its layers and slots within the budget."""
    result = tuned(engine)
    assert all(row.planned_bytes <= BUDGET for row in result.rows)
    assert set(engine.ran) <= {row.setting for row in result.rows}


def test_the_chosen_setting_beats_fixed_streaming_within_the_same_bytes(engine: Any) -> None:
    """Fixed streaming, p = 0 and d = 1, uses two slots; the search uses the whole budget and is faster."""
    result = tuned(engine)
    fixed, native = result.comparisons
    assert fixed.setting is not None
    assert (fixed.setting.n_resident, fixed.setting.prefetch_depth) == (0, 1)
    assert fixed.speed_up is not None
    assert fixed.speed_up > 1.3
    assert (native.token_s, native.note) == (None, "it does not run here")


def test_an_engine_cache_that_runs_is_compared(engine: Any) -> None:
    """Its step counts with the largest batch whose two layers fit."""
    engine.native_step_s = 0.02
    native = tuned(engine).comparisons[1]
    assert native.token_s == pytest.approx(0.02)
    assert native.speed_up is not None
    assert native.speed_up > 1.0


def test_where_everything_fits_nothing_is_streamed(engine: Any) -> None:
    """With room for the largest batch, all layers stay, and a step has no wait."""
    result = tuned(engine, 32 * LAYER_BYTES)
    assert (result.resident_frac, result.chosen.setting.batch) == (1.0, 4)
    assert result.chosen.measured.wait_s == 0.0


def test_predictions_carry_their_errors(engine: Any) -> None:
    """An engine that takes a quarter longer than the recurrence says is predicted a fifth too short."""
    engine.drift = 1.25
    result = tuned(engine, trials=4)
    assert result.median_error_frac == pytest.approx(0.2)
    assert result.median_explained_error_frac == pytest.approx(0.2)


def test_the_same_seed_tries_the_same_settings(engine: Any) -> None:
    """Trials are drawn from the seed alone."""
    first, second = tuned(engine, seed=3), tuned(engine, seed=3)
    assert [row.setting for row in first.rows] == [row.setting for row in second.rows]


def test_known_settings_are_not_run_again(engine: Any) -> None:
    """Beside the turns at the end, each setting runs once."""
    result = tuned(engine)
    turns = 2 * 3
    assert len(engine.ran) == len(result.rows) + turns


def test_a_budget_without_two_slots_is_refused(engine: Any) -> None:
    """The message says how many bytes two slots are."""
    with pytest.raises(SearchError, match="2000000 bytes"):
        tuned(engine, 2 * LAYER_BYTES - 1)
    with pytest.raises(SearchError, match="at least one trial"):
        tuned(engine, trials=0)


def test_the_policy_says_p_and_d_and_means_the_same_layers(engine: Any, tmp_path: Path) -> None:
    """The document holds the streaming section; p, read back, gives as many layers as were chosen."""
    result = tuned(engine, link_is_simulated=True)
    save(make_streaming_document(result), tmp_path / "policy.yaml")
    document = load(tmp_path / "policy.yaml")
    assert document.streaming is not None
    assert resident_count(8, document.streaming.resident_frac) == result.chosen.setting.n_resident
    assert document.streaming.prefetch_depth == result.chosen.setting.prefetch_depth
    assert document.budgets.device_bytes == BUDGET
    assert "simulated link" in document.costs.source
    assert document.fingerprint.engines == ("transformers>=5.0,<5.25",)


def test_a_row_of_layers_is_exported(engine: Any, tmp_path: Path) -> None:
    """A placement other than even reaches the lines of Python that the policy is exported to."""
    from dataclasses import replace

    from autotune.export.renderer import export_policy

    result = tuned(engine, trials=2)
    in_a_row = replace(result.chosen, setting=GenerationSetting(4, 1, Placement.LAST, 1))
    document = make_streaming_document(replace(result, chosen=in_a_row))
    settings = export_policy(document, tmp_path / "policy.yaml", "transformers").settings
    assert settings == {"resident_frac": 0.5, "prefetch_depth": 1, "placement": "last"}


@pytest.mark.parametrize(("n_resident", "share"), [(0, 0.0), (1, 0.125), (8, 1.0)])
def test_shares_are_rounded_up(engine: Any, n_resident: int, share: float) -> None:
    """A share with few digits still means whole layers."""
    from dataclasses import replace

    result = tuned(engine, trials=2)
    setting = GenerationSetting(n_resident, 1, Placement.EVEN, 1)
    result = replace(result, chosen=replace(result.chosen, setting=setting))
    assert result.resident_frac == share


def test_the_page_has_every_setting_and_says_what_does_not_run(engine: Any) -> None:
    """Rows, prediction and the comparison that could not be made; and markup in names stays text."""
    result = tuned(engine)
    page = render_streaming_report(result)
    assert page.count("<tr") == len(result.rows) + 1
    assert "it does not run here" in page
    assert "median error" in " ".join(summary_sentences(result))
