"""The joint space, read from YAML: one study over the rank rule, the loop, and the knobs that both have."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from pydantic import model_validator

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.types import Admission, StoreMode
from autotune.core.validation import BrokenRuleError, validate
from autotune.online.settings import OnlineSettings
from autotune.search.knob import Knob, Knobs, Suggests, Value, with_knobs_of
from autotune.search.online.joint_setting import JointSetting, Rule
from autotune.search.online.setting import LoopSetting
from autotune.search.setting import Setting

_SHARED = ("rule", "store_mode", "min_load_tokens", "resident_frac")
_OF_RANK = ("lambda_recency", "tau_turnovers", "half_life_turnovers", "cost_weight", "ghost_ratio", "admission")
_OF_LOOP = tuple(name for name in LoopSetting.model_fields if name not in _SHARED)


@with_knobs_of(LoopSetting)
class JointSpace(Knobs):
    """All knobs, those of the loop after the others; those of a rule are drawn only where the trial has that rule."""

    grouped: ClassVar[bool] = True

    rule: Knob
    store_mode: Knob
    min_load_tokens: Knob
    resident_frac: Knob
    lambda_recency: Knob
    tau_turnovers: Knob
    half_life_turnovers: Knob
    cost_weight: Knob
    ghost_ratio: Knob
    admission: Knob

    @model_validator(mode="after")
    def _keeps_the_split(self) -> JointSpace:
        knob = self.resident_frac
        if knob.low is not None or (knob.choices is not None and None not in knob.choices):
            raise BrokenRuleError(
                "resident_frac of a joint space is a list of choices with null among them, or fixed",
                got="one that leaves out the split that was given",
            )
        return self

    def draw(self, trial: Suggests) -> JointSetting:
        """The setting that a trial stands for."""
        shared = self._drawn(_SHARED, trial)
        rule, mode = Rule(shared.pop("rule")), StoreMode(shared.pop("store_mode"))
        if rule is Rule.LEARNED:
            loop = LoopSetting.restored({"store_mode": mode, **self._drawn(_OF_LOOP, trial)})
            return JointSetting(mode, **shared, loop=loop)
        values = self._drawn(_OF_RANK, trial)
        return JointSetting(mode, **shared, rank=Setting(admission=Admission(values.pop("admission")), **values))

    def parameters_of(self, setting: object) -> dict[str, Value]:
        """Parameters of the trial that stands for a setting, or comes closest to it in this space.

        Raises:
            SearchError: the setting is of another space.
        """
        if not isinstance(setting, JointSetting):
            raise SearchError("a joint search tries joint settings", got=type(setting).__name__)
        names = (*_SHARED, *(_OF_LOOP if setting.rule is Rule.LEARNED else _OF_RANK))
        knobs = {name: getattr(self, name) for name in names}
        wanted = {name: setting.value(name) for name in names}
        plain = {name: str(value) if isinstance(value, str) else value for name, value in wanted.items()}
        return {name: knob.nearest(plain[name]) for name, knob in knobs.items() if knob.moves}

    def default(self, base: OnlineSettings) -> JointSetting:
        """The fixed default."""
        return JointSetting.default(base)

    def stored(self, setting: JointSetting) -> dict[str, Any]:
        """The setting as JSON has it."""
        return setting.stored()

    def restored(self, values: dict[str, Any]) -> JointSetting:
        """The setting that was stored."""
        return JointSetting.restored(values)

    def _drawn(self, names: tuple[str, ...], trial: Suggests) -> dict[str, Any]:
        return {name: getattr(self, name).draw(name, trial) for name in names}


def load_joint_space(path: Path | None = None) -> JointSpace:
    """The joint space that the package ships, or one from a file.

    Raises:
        SearchError: the file cannot be read, or is not a valid space.
    """
    shipped = files("autotune_configs") / "search" / "online" / "joint.yaml"
    text = shipped.read_text("utf-8") if path is None else read_text(path, SearchError)
    return validate(
        JointSpace, parse_mapping(text, SearchError), SearchError, f"search space {path or 'of both rules'}"
    )
