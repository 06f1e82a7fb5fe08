"""Presets: settings to start a search from."""

from __future__ import annotations

import pytest

from autotune.api import cost_profile
from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.core.validation import validate
from autotune.search.objectives.net_seconds import NetSeconds
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
    assert not preset.setting().is_lru


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
