"""What the table and the report of a tuning run say of a learned rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.types import StoreMode
from autotune.report.columns import chosen_row
from autotune.report.facts import key_figures
from autotune.report.learned import chosen_rule, learned_facts, learned_sentences, rule_facts
from autotune.report.page import render_report
from autotune.report.table import summary_lines
from autotune.search.result import LearnedReport, ModeRow, TuneResult
from autotune.search.setting import LRU_SETTING


@pytest.fixture
def learned(result: TuneResult) -> TuneResult:
    """A learned rule with lazy stores won."""
    report = LearnedReport(
        reason="it beat LRU on the past and on the held-out part by more than the noise",
        store_mode=StoreMode.LAZY,
        mode_gain_frac=0.007,
        learning_gain_frac=0.08,
        modes=(ModeRow(StoreMode.LAZY, 0.05), ModeRow(StoreMode.EAGER, 0.04)),
        rows=10_403,
        fit_seconds=0.39,
        horizons_s=(105.0, 414.0),
    )
    tuned = next(row for row in result.rows if row.name == "tuned")
    rows = (*result.rows, replace(tuned, name="learned"))
    return replace(result, chosen="learned", setting=LRU_SETTING, rows=rows, learned=report)


def test_the_learned_row_is_the_chosen_one(learned: TuneResult) -> None:
    """Its row is marked, and its rule stands where a setting would."""
    row = chosen_row(learned)
    assert row is not None
    assert row.name == "learned"
    assert chosen_rule(learned) == "learned rule, lazy stores"
    assert ("stores", "lazy") in rule_facts(learned)
    assert key_figures(learned)[-1].value == "learned, lazy stores"


def test_mode_and_learning_stand_apart(learned: TuneResult) -> None:
    """On the terminal and on the page both parts of the gain are told, and every mode on the past."""
    told = "Learned rule: lazy stores alone save 0.70 %, what was learned 8.0 % more."
    assert told in summary_lines(learned)
    page = render_report(learned)
    for words in ("The learned rule", "Use the learned policy", "lazy 5.0\N{NO-BREAK SPACE}%", "10,403"):
        assert words in page, words


def test_a_rule_that_was_left_out_says_why(result: TuneResult) -> None:
    """The reason stands in both; where nothing is known of a learned rule, nothing is said."""
    out = replace(result, learned=LearnedReport("there is no host tier"))
    assert learned_sentences(out) == ("No rule was learned: there is no host tier",)
    assert learned_facts(out) == (("learned rule", "none: there is no host tier"),)
    assert learned_sentences(result) == ()
    assert learned_facts(result) == ()
    assert "The learned rule" not in render_report(result)
