"""The study over the loop's settings: order, pruning, and that interruptions change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.core.errors import SearchError
from autotune.online.settings import OnlineSettings
from autotune.search.online.case import Case
from autotune.search.online.setting import LoopSetting
from autotune.search.online.space import LoopSpace, load_loop_space
from autotune.search.online.study import LoopPlan, LoopTrial, best_loop, search_loop, worth

TRIALS = 6


@pytest.fixture(scope="module")
def space() -> LoopSpace:
    """The space that ships."""
    return load_loop_space()


@pytest.fixture(scope="module")
def plan(base: OnlineSettings, quick: LoopSetting) -> LoopPlan[LoopSetting]:
    """A short search that begins with the quick setting and prunes early."""
    return LoopPlan(trials=TRIALS, seed=3, prune_after=1, first=(quick,), base=base)


@pytest.fixture(scope="module")
def whole(cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting]) -> list[LoopTrial[LoopSetting]]:
    """The search without an interruption, in memory."""
    return search_loop(cases, space, plan)


class InterruptionError(Exception):
    """What a test interrupts a search with."""


def interrupt_after(n_trials: int) -> Callable[[LoopTrial[LoopSetting], LoopTrial[LoopSetting]], None]:
    """A progress callback that ends the search once ``n_trials`` are told."""
    told: list[LoopTrial[LoopSetting]] = []

    def report(row: LoopTrial[LoopSetting], best: LoopTrial[LoopSetting]) -> None:
        told.append(row)
        if len(told) == n_trials:
            raise InterruptionError

    return report


def test_the_default_comes_first_then_the_presets(
    whole: list[LoopTrial[LoopSetting]], base: OnlineSettings, quick: LoopSetting
) -> None:
    """Trial 0 is the fixed default and trial 1 what the plan asks for; then the sampler draws others."""
    assert [row.number for row in whole] == list(range(TRIALS))
    assert [row.setting for row in whole[:2]] == [LoopSetting.of(base), quick]
    assert len({row.setting for row in whole}) == TRIALS


def test_the_default_is_not_tried_twice(
    cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting], base: OnlineSettings, quick: LoopSetting
) -> None:
    """A preset that is the default takes no trial of its own."""
    first = (LoopSetting.of(base), quick, quick)
    rows = search_loop(cases[:1], space, replace(plan, first=first, trials=2))
    assert [row.setting for row in rows] == [LoopSetting.of(base), quick]


def test_a_pruned_trial_ran_the_first_cases_only(whole: list[LoopTrial[LoopSetting]], cases: list[Case]) -> None:
    """Some trial is given up; it has fewer outcomes than there are cases, and never is the best."""
    assert {row.pruned for row in whole} == {True, False}
    assert all((len(row.closed_frac) < len(cases)) == row.pruned for row in whole)
    assert not best_loop(whole).pruned


def test_values_are_those_of_the_cases(
    whole: list[LoopTrial[LoopSetting]], cases: list[Case], base: OnlineSettings, quick: LoopSetting
) -> None:
    """What a trial reports is what its setting comes to on each case, and their mean."""
    closed = [case.evaluate(quick, base).share(0.5) for case in cases]
    assert sorted(whole[1].closed_frac) == sorted(closed)
    assert whole[1].value == pytest.approx(sum(closed) / len(closed))


def test_nothing_is_pruned_unless_asked(cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting]) -> None:
    """Without pruning every trial runs every case."""
    rows = search_loop(cases, space, replace(plan, prune_after=None, trials=3))
    assert [len(row.closed_frac) for row in rows] == [len(cases)] * 3


@pytest.mark.parametrize("told", [1, 3])
def test_a_journal_goes_on(
    told: int,
    cases: list[Case],
    space: LoopSpace,
    plan: LoopPlan[LoopSetting],
    whole: list[LoopTrial[LoopSetting]],
    tmp_path: Path,
) -> None:
    """A search interrupted after some trials ends as if nothing had happened; its journal has one object per line."""
    journal = tmp_path / "study.jsonl"
    stored = replace(plan, storage=str(journal))
    with pytest.raises(InterruptionError):
        search_loop(cases, space, stored, interrupt_after(told))
    assert search_loop(cases, space, stored) == whole
    assert all(line.startswith("{") for line in journal.read_text().splitlines())
    told_again: list[LoopTrial[LoopSetting]] = []
    assert search_loop(cases, space, stored, lambda row, best: told_again.append(row)) == whole
    assert told_again == []


def test_another_searchs_journal_is_refused(
    cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting], tmp_path: Path
) -> None:
    """A stored search does not go on with other cases, another goal or another base."""
    stored = replace(plan, storage=str(tmp_path / "study.jsonl"), trials=1)
    search_loop(cases, space, stored)
    for others, goal in (
        (cases[:1], stored),
        (cases, replace(stored, spread_weight=0.5)),
        (cases, replace(stored, shadow_weight=0.0)),
        (cases, replace(stored, base=OnlineSettings())),
    ):
        with pytest.raises(SearchError, match="goes on with the search it was begun for"):
            search_loop(others, space, goal)


@pytest.mark.parametrize("text", [None, "no journal\nnor anything else\n", "[1]\n[2]\n", '{"a": 1}\n{"b": 2}\n'])
def test_what_is_no_journal_is_refused(
    text: str | None, cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting], tmp_path: Path
) -> None:
    """A folder that is not there and a file of another kind are refused in one line with the file's name."""
    file = tmp_path / "folder" / "study.jsonl"
    if text is not None:
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    with pytest.raises(SearchError, match=r"kept in a journal.*study\.jsonl") as caught:
        search_loop(cases, space, replace(plan, storage=str(file)))
    assert "\n" not in str(caught.value)


def test_a_search_without_cases_is_refused(space: LoopSpace, plan: LoopPlan[LoopSetting]) -> None:
    """There is nothing to try settings on."""
    with pytest.raises(SearchError, match="at least one case"):
        search_loop([], space, plan)


def test_an_unknown_sampler_is_refused(cases: list[Case], space: LoopSpace, plan: LoopPlan[LoopSetting]) -> None:
    """The error names what there is."""
    with pytest.raises(SearchError, match="known: tpe, random, cmaes, nsga2"):
        search_loop(cases, space, replace(plan, sampler="best"))


def test_worth_prefers_what_helps_everywhere() -> None:
    """Of two settings with the same mean, the one that gains evenly over the default is worth more."""
    default = (0.2, 1.0)
    even, uneven = (0.3, 1.1), (0.2, 1.2)
    assert worth(even, default, 0.0) == pytest.approx(worth(uneven, default, 0.0)) == pytest.approx(0.7)
    assert worth(even, default, 1.0) == pytest.approx(0.7)
    assert worth(uneven, default, 1.0) == pytest.approx(0.6)
