"""The section ``online`` of the settings is the settings of the loop, knob by knob."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from autotune.core.errors import ConfigError
from autotune.core.learning_settings import LearningGuardSettings, LearningSettings, ReuseModelSettings
from autotune.core.settings import parse_settings
from autotune.costs.reuse import ReuseSettings
from autotune.online.from_settings import online_settings
from autotune.online.settings import GuardSettings, OnlineSettings


def test_defaults_are_the_loops() -> None:
    """Without a settings file the loop runs with its own defaults."""
    assert online_settings(LearningSettings()) == OnlineSettings()
    assert online_settings(LearningSettings(), fit=ReuseModelSettings()).fit == ReuseSettings()


def test_every_knob_can_be_set() -> None:
    """No knob of the loop, of the guard or of the fit is missing from the settings, and none is there in vain."""
    pairs = ((LearningSettings, OnlineSettings), (LearningGuardSettings, GuardSettings))
    for section, loop in (*pairs, (ReuseModelSettings, ReuseSettings)):
        there = {field.name for field in fields(loop)}
        assert set(section.model_fields) - {"store_mode"} == there - {"seed"}


def test_a_file_reaches_the_loop() -> None:
    """What a file names changes, at every depth, and nothing else does."""
    text = "online: {refit_growth: 2.0, fit: {trees: 7}, guard: {min_periods: 9}}"
    found = online_settings(parse_settings(text).online, seed=3)
    expected = OnlineSettings(
        refit_growth=2.0,
        fit=replace(OnlineSettings().fit, trees=7),
        guard=replace(GuardSettings(), min_periods=9),
        seed=3,
    )
    assert found == expected


@pytest.mark.parametrize("text", ["{refit_growth: 1.0}", "{fit: {max_depth: 3}}", "{guard: {discount: 0}}"])
def test_values_out_of_range_are_refused(text: str) -> None:
    """A loop that would never fit again, deeper trees than tables can hold, and a guard without memory are errors."""
    with pytest.raises(ConfigError, match=r"settings: online\."):
        parse_settings(f"online: {text}")
