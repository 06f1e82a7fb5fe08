"""The learned rule as a candidate of a tuning run: fitted and chosen on the past, held to the rule of all others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from autotune.api import Policy, simulate, tune
from autotune.core.policy import ClassHazardDocument, WriteBudget, parse
from autotune.core.settings import SearchSettings, Settings
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, RankForm, StoreMode
from autotune.costs.reuse import NotEnough
from autotune.search.choice import Goal, Split, Verdict
from autotune.search.learned import LearnedCandidate, better, choose_learned, learned_candidate, report_of
from autotune.search.learned_document import learned_section
from autotune.search.problem import Problem
from autotune.search.result import TuneResult
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.tune import load_objective
from autotune.sim.config import CacheConfig
from autotune.sim.joint_lru import simulate_joint_lru

GOAL = Goal(load_objective("net_seconds"), (), 0.002)


@pytest.fixture(scope="module")
def found(split: Split) -> LearnedCandidate:
    """The candidate on the problem with a host."""
    candidate = learned_candidate(split, GOAL, Settings())
    assert isinstance(candidate, LearnedCandidate)
    return candidate


@pytest.fixture(scope="module")
def published(chat: Trace) -> TuneResult:
    """A run in which only LRU is searched, so that the learned rule alone can win."""
    search = SearchSettings(trials=1, random_search=False)
    return tune(chat, device_blocks=300, host_blocks=1500, settings=Settings(search=search))


def test_nothing_of_it_knows_the_held_out_part(split: Split, found: LearnedCandidate) -> None:
    """Cut off after the past, the same trace gives the same rule and the same store mode."""
    shorter = replace(split, whole=split.past, held_out=(split.held_out[0] - 50, split.past.trace.n_requests))
    again = learned_candidate(shorter, GOAL, Settings())
    assert isinstance(again, LearnedCandidate)
    assert learned_section(again.learned, 0.0) == learned_section(found.learned, 0.0)
    assert [(row.mode, row.form) for row in again.modes] == [(row.mode, row.form) for row in found.modes]
    assert found.learned.fitted_at_s <= split.past.trace.arrival_s[-1]


def test_every_store_mode_and_form_is_tried_on_the_later_past(split: Split, found: LearnedCandidate) -> None:
    """The best there is the one that is judged."""
    assert {(row.mode, row.form) for row in found.modes} == set(product(StoreMode, RankForm))
    assert found.modes[0].value == min(row.value for row in found.modes)
    assert found.judged.engine.store_mode is found.modes[0].mode
    assert found.judged.rules is not None
    assert found.judged.rules.form is found.learned.form is found.modes[0].form
    assert 0 < found.later[0] < found.later[1] == split.past.trace.n_requests


def test_the_rule_is_held_to_what_settings_are_held_to(split: Split, found: LearnedCandidate) -> None:
    """A gain that is asked for and not reached leaves LRU in place."""
    lru = split.judge(LRU_SETTING)
    greedy = Goal(GOAL.objective, (), 0.9)
    judged, verdict = choose_learned(split, found, lru, greedy, Settings())
    assert judged is lru
    assert not verdict.publish
    judged, verdict = choose_learned(split, found, lru, GOAL, Settings())
    assert verdict.publish
    assert judged.rules is not None
    assert judged.gain_frac.low > 0.0


def test_the_better_on_the_past_is_chosen(split: Split, found: LearnedCandidate, ranked: Setting) -> None:
    """A setting that does nothing loses to the rule; where the rule may not be published, the setting stays."""
    lru = split.judge(LRU_SETTING)
    stays = (lru, Verdict(False, "nothing was found"))
    chosen, verdict, report = better(split, stays, lru, found, lru, GOAL, Settings())
    assert chosen.row_name == "learned"
    assert verdict.publish
    assert report.store_mode is found.modes[0].mode
    rank = (split.judge(ranked), Verdict(True, "it gained"))
    greedy = Goal(GOAL.objective, (), 0.9)
    assert better(split, rank, rank[0], found, lru, greedy, Settings())[0] is rank[0]
    without, _, report = better(split, rank, rank[0], NotEnough("too short"), lru, GOAL, Settings())
    assert without is rank[0]
    assert report.reason == "too short"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"host_blocks": 0}, "no host tier"),
        ({"semantics": EngineSemantics.VLLM_0_32}, "vllm-0.32"),
        ({"chunk_blocks": 4}, "single blocks"),
        ({"host_blocks": 10**6}, "not full yet"),
    ],
)
def test_it_says_why_it_is_left_out(split: Split, change: dict[str, object], reason: str) -> None:
    """Engines that cannot obey a learned rule, and histories that teach nothing, are named."""
    engine: CacheConfig = replace(split.whole.engine, **change)  # type: ignore[arg-type]
    problem: Problem = replace(split.whole, engine=engine)
    left_out = learned_candidate(replace(split, whole=problem, past=problem.until(split.fit_until_s)), GOAL, Settings())
    assert isinstance(left_out, NotEnough)
    assert reason in left_out.reason


def test_a_published_rule_keeps_its_promise(published: TuneResult, chat: Trace) -> None:
    """The file, read back, costs what it promises beside LRU with eager stores, and verifying finds the same."""
    assert published.chosen == "learned"
    document = parse(Policy(published.document).to_yaml())
    assert isinstance(document, ClassHazardDocument)
    section = document.class_hazard
    assert section.prices is not None and section.prices.form is section.form
    promise, rows = document.expectation, {row.name: row for row in published.rows}
    assert promise is not None
    assert (promise.cost_baseline_s, promise.cost_policy_s) == (rows["lru"].cost_s, rows["learned"].cost_s)
    measured = simulate(chat, Policy(document), measure_from_s=published.fit_until_s)
    assert measured.totals.cost_s == promise.cost_policy_s
    assert Policy(document).verify(chat).holds
    assert published.gap_closed_frac == rows["learned"].gap_closed_frac


def test_mode_and_learning_are_told_apart(published: TuneResult) -> None:
    """Both parts together are the gain that is promised."""
    report = published.learned
    total = report.mode_gain_frac + report.learning_gain_frac
    assert total == pytest.approx(published.gain_frac.value)
    assert report.rows > 0
    assert [curve.policy for curve in published.curves[:3]] == ["lru", "learned", "clairvoyant"]
    assert published.verdict.startswith("The learned policy saves")


def test_what_the_mode_gains_is_what_one_lru_over_both_tiers_gains(split: Split, found: LearnedCandidate) -> None:
    """What remains is the model's alone: it is held beside the best LRU with the same stores."""
    lru, whole = split.judge(LRU_SETTING).evaluation, split.whole
    joint = simulate_joint_lru(whole.trace, found.judged.engine, whole.costs).totals(*split.held_out)
    told = report_of(found, lru, None)
    assert told.mode_gain_frac == pytest.approx(1.0 - joint.cost_s / lru.totals.cost_s)
    learned_s = found.judged.evaluation.totals.cost_s
    assert told.learning_gain_frac == pytest.approx((joint.cost_s - learned_s) / lru.totals.cost_s)


def test_it_can_be_left_out(chat: Trace) -> None:
    """Then there is no row, and the report says that nobody asked."""
    search = SearchSettings(trials=2, random_search=False, learned=False)
    result = tune(chat, device_blocks=300, host_blocks=1500, settings=Settings(search=search))
    assert "learned" not in [row.name for row in result.rows]
    assert result.learned.reason == "it was left out on request"


def test_a_write_budget_is_published_and_was_kept_while_it_was_judged(chat: Trace, published: TuneResult) -> None:
    """The candidate is judged under the budget, so its promise holds; it stores less than without."""
    free = simulate(chat, Policy(published.document)).cache
    bytes_per_s = 0.5 * int(free.stored.sum()) * free.block_bytes / chat.span_s
    section = Settings().online.model_copy(update={"write_bytes_per_s": bytes_per_s, "write_burst_s": 60.0})
    search = SearchSettings(trials=1, random_search=False)
    result = tune(chat, device_blocks=300, host_blocks=1500, settings=Settings(search=search, online=section))
    assert result.chosen == "learned"
    document = parse(Policy(result.document).to_yaml())
    assert isinstance(document, ClassHazardDocument)
    assert document.budgets.host_write == WriteBudget(bytes_per_s=bytes_per_s, burst_s=60.0)
    assert document.class_hazard.copy_factor == 0.5
    assert Policy(document).verify(chat).holds
    kept = simulate(chat, Policy(document)).cache
    assert int(kept.stored.sum()) * kept.block_bytes <= bytes_per_s * (1.05 * chat.span_s + 60.0) + kept.block_bytes
