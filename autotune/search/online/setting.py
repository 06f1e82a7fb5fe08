"""One point of the loop's search space, which is also the table of its knobs: name, range and meaning of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic import Field

from autotune.core.errors import SearchError
from autotune.core.learning_settings import LearningSettings
from autotune.core.types import RankForm, StoreMode
from autotune.core.validation import Strict, validate
from autotune.costs.reuse import ReuseSettings
from autotune.online.settings import OnlineSettings


class LoopSetting(Strict):
    """A setting of the online loop: what a search may turn.

    Each field means what the one of that name means in :class:`~autotune.online.settings.OnlineSettings` or
    :class:`~autotune.costs.reuse.ReuseSettings`; ``store_mode`` is the engine's. A field that is added here is a knob
    of every search space of the loop and a value of every preset; one with a default need not be named there.
    """

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
    refit_growth: float = Field(gt=1.0, le=100.0, description="Growth of the requests seen from one fit to the next.")
    first_fit_requests: int = Field(ge=1, le=10_000_000, description="Requests before the first fit.")
    form: RankForm | None = Field(
        default=RankForm.HAZARD,
        description="Whether blocks are ranked anew in every tick, or once, when they become idle; null = as the guard "
        "finds either better.",
    )

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> LoopSetting:
        """The setting with these values, in which words may stand for modes and forms.

        Raises:
            SearchError: a knob is missing, unknown or out of its range.
        """
        return validate(cls, dict(values), SearchError, "a setting of the loop")

    @classmethod
    def of(cls, settings: OnlineSettings, store_mode: StoreMode = StoreMode.LAZY) -> LoopSetting:
        """The point that stands for settings of the loop.

        Raises:
            SearchError: one of them is out of the range of its knob.
        """
        names = cls.model_fields.keys() - {"store_mode"}
        values = {name: getattr(settings.fit if name in _OF_THE_FIT else settings, name) for name in names}
        return cls.restored({"store_mode": store_mode, **values})

    def online(self, base: OnlineSettings) -> OnlineSettings:
        """Settings of the loop with these values; everything else is as in ``base``."""
        fit, loop = self.model_dump(include=_OF_THE_FIT), self.model_dump(exclude=_OF_THE_FIT | {"store_mode"})
        return replace(base, fit=replace(base.fit, **fit), **loop)

    def section(self, base: LearningSettings | None = None) -> LearningSettings:
        """Section ``online`` of the settings with these values.

        Args:
            base: What the setting does not say; the defaults if not given.
        """
        base = base or LearningSettings()
        fit = base.fit.model_copy(update=self.model_dump(include=_OF_THE_FIT))
        return base.model_copy(update=self.model_dump(exclude=_OF_THE_FIT) | {"fit": fit})


_OF_THE_FIT = {field.name for field in fields(ReuseSettings)} & LoopSetting.model_fields.keys()
