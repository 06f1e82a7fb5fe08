"""Scenarios: load, settings and classes of requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.advise.classes import service_of_classes
from autotune.advise.scenarios import (
    TrafficClass,
    load_scenario,
    planned_load,
    scenario_names,
    scenario_settings,
)
from autotune.core.errors import ConfigError
from autotune.core.settings import Settings

CLASSES = (
    TrafficClass(name="short", max_input_tokens=100, ttft_goal_ms=500.0, goodput_goal_frac=0.9),
    TrafficClass(name="long", max_input_tokens=1000, ttft_goal_ms=5000.0, goodput_goal_frac=0.5),
)


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_is_valid_and_was_tried(name: str) -> None:
    """Each is named as its file, its settings are settings, and it says on what it was tried."""
    scenario = load_scenario(name)
    assert scenario.name == name
    assert f"--scenario {name}" in scenario.tried_on
    assert isinstance(scenario_settings(name), Settings)


def test_the_scenarios_that_are_promised() -> None:
    """Long chat, offline batch at a low p, and several tenants with targets of their own."""
    assert set(scenario_names()) == {"long-chat", "multi-tenant-qos", "offline-batch"}
    assert float(load_scenario("offline-batch").load.resident_frac) <= 0.2
    goals = [each.ttft_goal_ms for each in load_scenario("multi-tenant-qos").classes]
    assert goals == sorted(set(goals))


def test_settings_of_a_file_come_on_top(tmp_path: Path) -> None:
    """A file changes what it names, and the rest stays the scenario's."""
    path = tmp_path / "settings.yaml"
    path.write_text("queue: {servers: 3}\nsearch: {trials: 7}\n", encoding="utf-8")
    merged = scenario_settings("multi-tenant-qos", path)
    assert (merged.queue.servers, merged.search.trials) == (3, 7)
    assert (merged.search.objective, merged.queue.ttft_goal_ms) == ("goodput", 2000.0)
    assert scenario_settings(None) == Settings()
    assert scenario_settings(None, path).search.trials == 7


def test_what_is_given_wins_over_the_scenario() -> None:
    """Context, concurrency and p are the user's, else the scenario's, else the defaults."""
    assert planned_load("offline-batch", None, 5, None) == (8192, 5, "0.1")
    assert planned_load("offline-batch", 10, None, "0.5") == (10, 128, "0.5")
    assert planned_load(None, None, None, None) == (8192, 16, "1")


def test_own_file_and_faults(tmp_path: Path) -> None:
    """A scenario of one's own is read by its path; unknown names and settings are answered with the known ones."""
    text = (
        "{name: mine, traffic: mine, tried_on: nothing, settings: {search: {trials: 3}},"
        " load: {context_tokens: 1, concurrency: 2, resident_frac: '1'}}"
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert scenario_settings(str(path)).search.trials == 3
    path.write_text(text.replace("trials", "trails"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"settings: search\.trails is not a known name.*trials"):
        load_scenario(str(path))
    with pytest.raises(ConfigError, match="got 'long-chats'; did you mean 'long-chat'"):
        load_scenario("long-chats")


def test_each_class_is_judged_by_its_own_target() -> None:
    """Two seconds are too long for the short class and fine for the long one."""
    tokens = np.array([50, 100, 101, 1000], np.int32)
    short, long = service_of_classes(CLASSES, tokens, np.array([0.1, 2.0, 2.0, 2.0]))
    assert (short.requests, short.goodput_frac, short.met) == (2, 0.5, False)
    assert (long.requests, long.goodput_frac, long.met) == (2, 1.0, True)
    assert [each.name for each in service_of_classes(CLASSES, tokens[2:], np.ones(2))] == ["long"]


def test_classes_that_cannot_be_told_apart_are_refused() -> None:
    """Classes in the wrong order, and prompts that belong to none, are named."""
    with pytest.raises(ConfigError, match="from the shortest prompts to the longest"):
        service_of_classes(CLASSES[::-1], np.array([1], np.int32), np.ones(1))
    with pytest.raises(ConfigError, match="every prompt belongs to a class; got one of 1,001 tokens"):
        service_of_classes(CLASSES, np.array([1001], np.int32), np.ones(1))
