"""One study over both rules: what a setting of it means, what is drawn, and that it can be stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from autotune.core.errors import SearchError
from autotune.core.types import StoreMode, Tier
from autotune.online.settings import OnlineSettings
from autotune.search.online.case import Case
from autotune.search.online.joint_setting import JointSetting, Rule
from autotune.search.online.joint_space import JointSpace, load_joint_space
from autotune.search.online.judging import judge
from autotune.search.online.setting import LoopSetting
from autotune.search.online.study import LoopPlan, best_loop, search_loop
from autotune.search.problem import Problem
from autotune.search.setting import LRU_SETTING, Setting

LAMBDA = Setting(lambda_recency=0.2, half_life_turnovers=20.0, cost_weight=0.3)


@pytest.fixture(scope="module")
def space() -> JointSpace:
    """The space that ships."""
    return load_joint_space()


def drawn(space: JointSpace, n: int) -> list[JointSetting]:
    """Settings of a random search."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    return [space.draw(study.ask()) for _ in range(n)]


def test_a_trial_has_the_knobs_of_its_rule(space: JointSpace) -> None:
    """Both rules are drawn, each with its own knobs and no others, in every store mode."""
    settings = drawn(space, 60)
    assert {setting.rule for setting in settings} == set(Rule)
    assert {setting.store_mode for setting in settings} == set(StoreMode)
    for setting in settings:
        assert (setting.rank is None) == (setting.rule is Rule.LEARNED)
        assert (setting.loop is None) == (setting.rule is Rule.RANK)
        assert setting.loop is None or setting.loop.store_mode is setting.store_mode
        assert setting.resident_frac is None


def test_settings_survive_storing_and_asking_for(space: JointSpace, base: OnlineSettings) -> None:
    """What was drawn is restored equal, and a trial that is asked for with its parameters draws it again."""
    for setting in (*drawn(space, 20), JointSetting.default(base)):
        assert space.restored(space.stored(setting)) == setting
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
        study.enqueue_trial(space.parameters_of(setting))
        assert space.draw(study.ask()) == setting


def test_a_loop_in_it_is_the_loop(cases: list[Case], base: OnlineSettings, quick: LoopSetting) -> None:
    """The loop, with no other knob turned, comes to what the search of the loop alone sees."""
    case = cases[0]
    assert case.evaluate(JointSetting.of_loop(quick), base) == case.evaluate(quick, base)
    longer = replace(JointSetting.of_loop(quick), min_load_tokens=10**6)
    assert case.evaluate(longer, base).closed_frac < case.evaluate(quick, base).closed_frac


def test_a_rank_rule_in_it_is_that_of_tune(cases: list[Case], base: OnlineSettings) -> None:
    """The same seconds as in ``tune``'s problem, whose turnover is that of the time before the measured part."""
    case = cases[0]
    outcome = case.evaluate(JointSetting.of_rank(LAMBDA, StoreMode.LAZY), base)
    engine = replace(case.config, store_mode=StoreMode.LAZY)
    past = Problem(case.trace.slice(0, case.start), engine, case.costs, Tier.HOST)
    problem = Problem(case.trace, engine, case.costs, Tier.HOST)
    totals = problem.evaluate_engine(past.configure(LAMBDA), (case.start, case.trace.n_requests)).totals
    assert outcome.closed_frac == (totals.net_seconds_saved - case.lru.net_seconds_saved) / case.gap_s
    assert outcome.shadow_frac == outcome.closed_frac


def test_lru_closes_nothing(cases: list[Case], base: OnlineSettings) -> None:
    """λ = 1 with eager stores is what gaps are counted from."""
    assert cases[0].evaluate(JointSetting.of_rank(LRU_SETTING, StoreMode.EAGER), base).closed_frac == 0.0


def test_the_split_of_memory_moves_where_it_is_asked_to(cases: list[Case]) -> None:
    """With p given, device and host together stay as large as they were."""
    given = cases[0].config
    engine = JointSetting(StoreMode.LAZY, min_load_tokens=700, resident_frac=0.5).engine(given, 512)
    total = given.device_blocks + given.host_blocks
    assert (engine.device_blocks, engine.host_blocks) == (round(0.5 * total), total - round(0.5 * total))
    assert (engine.store_mode, engine.min_load_blocks) == (StoreMode.LAZY, 2)


def test_a_joint_search_goes_on_and_tries_both_rules(
    cases: list[Case], space: JointSpace, base: OnlineSettings, tmp_path: Path
) -> None:
    """Trial 0 is the loop's default and trial 1 what the plan asks for; a stored study ends as one in memory."""
    first = JointSetting.of_rank(LAMBDA, StoreMode.LAZY)
    plan: LoopPlan[JointSetting] = LoopPlan(trials=5, seed=5, prune_after=None, first=(first,), base=base)
    whole = search_loop(cases[:1], space, plan)
    assert whole[0].setting == JointSetting.default(base)
    assert whole[1].setting.rank is not None
    assert whole[1].setting.rank.lambda_recency == 0.2
    assert best_loop(whole).value == max(row.value for row in whole)
    stored = replace(plan, storage=str(tmp_path / "joint.jsonl"))
    search_loop(cases[:1], space, replace(stored, trials=3))
    assert search_loop(cases[:1], space, stored) == whole


def test_both_rules_stand_in_one_table(cases: list[Case], base: OnlineSettings) -> None:
    """Defaults of the loop and a rank rule are judged side by side."""
    settings: dict[str, LoopSetting | JointSetting] = {
        "loop": LoopSetting.of(base),
        "rank": JointSetting.of_rank(LAMBDA, StoreMode.EAGER),
    }
    rows = judge(settings, cases[:1], base)
    assert [row.name for row in rows] == ["loop", "rank"]
    assert rows[1].seed_frac == 0.0


def test_a_space_that_loses_the_given_split_is_refused(tmp_path: Path) -> None:
    """A range for p would move trial 0 away from the engine as it is."""
    text = load_joint_space().model_dump_json(exclude_unset=True)
    path = tmp_path / "space.yaml"
    path.write_text(text.replace('"resident_frac":{"value":null}', '"resident_frac":{"low":0.1,"high":0.5}'), "utf-8")
    with pytest.raises(SearchError, match="list of choices with null among them"):
        load_joint_space(path)
    path.write_text(text.replace('"resident_frac":{"value":null}', '"resident_frac":{"choices":[null,0.3]}'), "utf-8")
    assert {setting.resident_frac for setting in drawn(load_joint_space(path), 20)} == {None, 0.3}


def test_settings_of_another_space_are_refused(space: JointSpace, base: OnlineSettings) -> None:
    """A setting of the loop says nothing about the rule."""
    with pytest.raises(SearchError, match="joint settings; got LoopSetting"):
        space.parameters_of(LoopSetting.of(base))
