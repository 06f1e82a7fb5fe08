"""Presets: settings that a search may start from, by kind of traffic."""

from __future__ import annotations

from importlib.resources.abc import Traversable

from pydantic import Field

from autotune.core import registry
from autotune.core.commented_yaml import to_commented_yaml
from autotune.core.errors import SearchError
from autotune.core.learning_settings import LearningSettings
from autotune.core.strict_yaml import parse_mapping
from autotune.core.types import RankForm, StoreMode
from autotune.core.validation import Strict, validate
from autotune.search.online.setting import LoopSetting
from autotune.search.setting import Setting


class LoopKnobs(Strict):
    """A setting of the online loop."""

    trees: int = Field(ge=1, le=1000, description="Trees per horizon.")
    learning_rate: float = Field(gt=0.0, le=1.0, description="Share of each tree that counts.")
    min_samples_leaf: int = Field(ge=1, le=100_000, description="Fewest rows in a leaf.")
    l2: float = Field(ge=0.0, le=1e6, description="Pull of every leaf towards no difference, in rows.")
    near_quantile: float = Field(gt=0.0, lt=1.0, description="Quantile of the reuse gaps that is the near horizon.")
    far_quantile: float = Field(gt=0.0, lt=1.0, description="Quantile of the reuse gaps that is the far horizon.")
    pseudo_events: float = Field(ge=0.0, le=1e6, description="Weight of the pooled hazard in that of a class.")
    device_age_frac: float = Field(
        ge=0.0, le=100.0, description="Age that is a hit on the device anyway, in turnovers of the device."
    )
    ticks_per_horizon: float = Field(
        gt=0.0, le=10_000.0, description="Times that residents are ranked anew within the near horizon."
    )
    copy_factor: float = Field(ge=0.0, le=1.0, description="Factor on the host rank of a block the device holds too.")
    store_mode: StoreMode = Field(description="When the host gets a block.")
    form: RankForm = Field(
        default=RankForm.HAZARD,
        description="Whether blocks are ranked anew in every tick, or once, when they become idle.",
    )
    refit_growth: float = Field(gt=1.0, le=100.0, description="Growth of the requests seen from one fit to the next.")
    first_fit_requests: int = Field(ge=1, le=10_000_000, description="Requests before the first fit.")

    def setting(self) -> LoopSetting:
        """The setting of the loop to start from."""
        return LoopSetting(**self.model_dump())

    def section(self, base: LearningSettings | None = None) -> LearningSettings:
        """Section ``online`` of the settings with these values.

        Args:
            base: What the preset does not say; the defaults if not given.
        """
        base, values = base or LearningSettings(), self.model_dump()
        fit = {name: values.pop(name) for name in list(values) if name in type(base.fit).model_fields}
        return base.model_copy(update=values | {"fit": base.fit.model_copy(update=fit)})


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
    online: LoopKnobs = Field(description="The online loop.")

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
