"""Presets: settings to start a search from."""

from __future__ import annotations

import pytest
from optuna.trial import FixedTrial

from autotune.api import cost_profile
from autotune.core.errors import SearchError
from autotune.core.settings import Settings
from autotune.core.strict_yaml import parse_mapping
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.core.validation import validate
from autotune.online.from_settings import online_settings
from autotune.online.settings import OnlineSettings
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.online.space import load_loop_space
from autotune.search.presets import Preset, load_preset, preset_names
from autotune.search.problem import Problem
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, run_study
from autotune.sim.config import CacheConfig


@pytest.mark.parametrize("name", preset_names())
def test_shipped_presets_are_valid_and_not_lru(name: str) -> None:
    """Every preset that ships reads, names itself and says how it was made."""
    preset = load_preset(name)
    assert preset.name == name
    assert "make_presets.py" in preset.made_by
    assert "20% to 60%" in preset.found_on
    assert not preset.setting().is_lru


def test_there_is_a_preset_for_every_kind_of_traffic() -> None:
    """Chats, coding agents, jobs over documents, and what is not known."""
    assert preset_names() == ("agentic", "batch", "chat", "unknown")


@pytest.mark.parametrize("name", preset_names())
def test_a_search_of_the_loop_can_start_from_a_preset(name: str) -> None:
    """The loop's setting lies in the space, so that the trial that stands for it is itself."""
    space, setting = load_loop_space(), load_preset(name).online
    assert space.draw(FixedTrial(space.parameters_of(setting))) == setting


def test_a_preset_is_a_section_of_the_settings() -> None:
    """What the section gives the loop is what the search ran; the guard stays as it was given."""
    knobs = load_preset("unknown").online
    base = Settings().online.model_copy(update={"publish_delay_s": 7.0})
    section = knobs.section(base)
    assert section.store_mode is knobs.store_mode
    assert online_settings(section) == knobs.online(OnlineSettings(publish_delay_s=7.0))
    assert type(section).model_validate(section.model_dump()) == section
    assert knobs.model_copy(update={"store_mode": StoreMode.EAGER}).section().store_mode is StoreMode.EAGER


def test_a_preset_reads_back_as_written() -> None:
    """Commented YAML and back gives the same preset."""
    preset = load_preset("chat")
    assert validate(Preset, parse_mapping(preset.to_yaml(), SearchError), SearchError) == preset


def test_an_unknown_preset_lists_the_known() -> None:
    """The error names what there is."""
    with pytest.raises(SearchError, match="chat"):
        load_preset("chart")


def test_a_search_tries_the_preset_right_after_lru() -> None:
    """Trial 0 is LRU's setting and trial 1 the preset's, as near as the space allows."""
    trace = Trace.open("sample:synthetic").slice(0, 200)
    problem = Problem(trace, CacheConfig(100), cost_profile()[1], Tier.DEVICE)
    preset = load_preset("chat").setting()
    rows = run_study(problem, load_space(), NetSeconds(), StudyPlan(trials=2, first=(preset,)))
    assert rows[0].setting.is_lru
    assert rows[1].setting.lambda_recency == preset.lambda_recency
    assert rows[1].setting.half_life_turnovers == preset.half_life_turnovers
