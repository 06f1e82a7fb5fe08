"""Presets: settings that a search may start from, by kind of traffic."""

from __future__ import annotations

from importlib.resources.abc import Traversable

from pydantic import Field

from autotune.core import registry
from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping
from autotune.core.validation import Strict, validate
from autotune.search.online.setting import LoopSetting
from autotune.search.setting import Setting

_RANK_KNOBS = {"lambda_recency", "tau_turnovers", "half_life_turnovers", "cost_weight", "ghost_ratio"}


class Preset(Strict):
    """A setting and where it comes from."""

    name: str = Field(min_length=1, max_length=100, description="Kind of traffic.")
    made_by: str = Field(max_length=500, description="Command that wrote this file.")
    found_on: str = Field(max_length=500, description="Traces, and the part of each in time that was looked at.")
    written_on: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="Day on which it was written, in UTC.")
    lambda_recency: float = Field(gt=0.0, le=1.0, description="λ: weight of recency against value; 1 is LRU.")
    tau_turnovers: float = Field(gt=0.0, le=1e6, description="Time scale, in turnovers of the ranked tier.")
    half_life_turnovers: float = Field(ge=0.0, le=1e6, description="Half-life of the frequency; 0 = no decay.")
    cost_weight: float = Field(ge=0.0, le=100.0, description="Weight of the seconds at stake beside the frequency.")
    ghost_ratio: float = Field(ge=0.0, le=1000.0, description="Blocks remembered after they left, per resident.")
    online: LoopSetting = Field(description="The online loop.")

    def setting(self) -> Setting:
        """The setting of the rank rule to start from."""
        knobs = self.model_dump(include=_RANK_KNOBS)
        return Setting(**knobs)

    def to_yaml(self) -> str:
        """The preset as commented YAML."""
        return to_commented_yaml(self, "Where a search may start; the search moves on from here.")


def preset_names() -> tuple[str, ...]:
    """Names of the presets that are installed, sorted."""
    return tuple(sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml")))


def load_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        SearchError: there is none, or its file is not valid.
    """
    if name not in preset_names():
        raise SearchError("a preset is known by name", got=repr(name), remedy=f"known: {', '.join(preset_names())}")
    text = (_folder() / f"{name}.yaml").read_text("utf-8")
    return validate(Preset, parse_mapping(text, SearchError), SearchError, f"preset {name}")


def _folder() -> Traversable:
    folder: Traversable = registry.load(registry.PRESETS, "shipped")
    return folder
