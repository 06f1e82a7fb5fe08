"""Points and the space of the loop's search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import FixedTrial

from autotune.core.errors import SearchError
from autotune.core.types import RankForm, StoreMode
from autotune.costs.reuse import ReuseSettings
from autotune.online.settings import OnlineSettings
from autotune.search.knob import Knob
from autotune.search.online.joint_space import JointSpace
from autotune.search.online.setting import LoopSetting
from autotune.search.online.space import LoopSpace, load_loop_space

SHIPPED = Path(__file__).parents[3] / "configs/autotune_configs/search/online/default.yaml"


@pytest.fixture(scope="module")
def space() -> LoopSpace:
    """The space that ships."""
    return load_loop_space()


def test_a_setting_reads_and_writes_the_same_fields() -> None:
    """What was read from the loop's settings gives those settings back."""
    base = OnlineSettings(device_age_frac=0.7, fit=ReuseSettings(trees=33, max_bins=16), seed=9)
    assert LoopSetting.of(base).online(base) == base


def test_what_a_setting_does_not_name_stays() -> None:
    """Only the knobs change; the guard, the seed and limits of memory are the base's."""
    base = OnlineSettings(seed=5, window_rows=1234)
    turned = LoopSetting.of(base).model_copy(update={"trees": 17, "copy_factor": 0.25}).online(base)
    assert turned == replace(base, copy_factor=0.25, fit=replace(base.fit, trees=17))


def test_the_default_lies_in_the_space(space: LoopSpace) -> None:
    """The trial that stands for the loop's defaults is the defaults themselves, so that a table compares with them."""
    default = LoopSetting.of(OnlineSettings())
    assert space.draw(FixedTrial(space.parameters_of(default))) == default


def test_a_setting_from_before_there_were_forms_is_read() -> None:
    """What says no form is ranked in ticks; a stored one comes back as it was."""
    setting = LoopSetting.of(OnlineSettings()).model_copy(update={"form": RankForm.FIXED_KEY})
    values = setting.model_dump()
    assert LoopSetting.restored({**values, "form": "fixed_key"}) == setting
    del values["form"]
    assert LoopSetting.restored(values).form is RankForm.HAZARD


def test_every_knob_moves(space: LoopSpace) -> None:
    """The space that ships searches every knob of a setting."""
    assert set(space.moving()) == set(LoopSetting.model_fields)


def test_spaces_have_a_knob_for_every_field_of_a_setting(space: LoopSpace, tmp_path: Path) -> None:
    """Both spaces are made from the setting's fields; one that has a default may be left out and is fixed at it."""
    assert list(LoopSpace.model_fields) == list(LoopSetting.model_fields)
    assert JointSpace.model_fields.keys() > LoopSetting.model_fields.keys()
    lines = SHIPPED.read_text("utf-8").splitlines(keepends=True)
    file = tmp_path / "space.yaml"
    file.write_text("".join(line for line in lines if not line.startswith("form:")), encoding="utf-8")
    older = load_loop_space(file)
    assert dict(older)["form"] == Knob(value=RankForm.HAZARD) and set(older.moving()) == set(space.moving()) - {"form"}


def test_settings_out_of_range_are_no_point_of_the_space() -> None:
    """What no knob could ever say is refused in one line."""
    with pytest.raises(SearchError, match=r"a setting of the loop: device_age_frac must be at most 100"):
        LoopSetting.of(OnlineSettings(device_age_frac=101.0))


def test_a_setting_outside_is_moved_to_the_edge(space: LoopSpace) -> None:
    """The trial for a setting that the space does not hold is the nearest that it does."""
    far = {"trees": 1000, "device_age_frac": 9.0, "store_mode": StoreMode.EAGER}
    outside = LoopSetting.of(OnlineSettings()).model_copy(update=far)
    drawn = space.draw(FixedTrial(space.parameters_of(outside)))
    assert (drawn.trees, drawn.device_age_frac, drawn.store_mode) == (120, 2.0, StoreMode.EAGER)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "[lazy, exclusive, eager]",
            "[lazy, sometimes]",
            "store_mode must be one of eager, lazy, exclusive.*sometimes",
        ),
        ("[null, hazard, fixed_key]", "[null, hazards]", "form must be one of hazard, fixed_key, null; got hazards"),
        ("low: 15, high: 120", "low: 0.5, high: 120", "trees must be a whole number from 1"),
        ("refit_growth: {low: 1.15", "refit_growth: {low: 1.0", "refit_growth must be a number above 1"),
        ("far_quantile: {low: 0.8, high: 0.97}", "far_quantile: {value: 1.0}", "above 0 and below 1; got 1.0"),
        ("copy_factor:", "copy_facto:", "did you mean 'copy_factor'"),
    ],
)
def test_a_wrong_space_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Values that a knob cannot have, and names that are none, are refused in one line."""
    text = SHIPPED.read_text("utf-8")
    assert old in text
    file = tmp_path / "space.yaml"
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(SearchError, match=message):
        load_loop_space(file)
