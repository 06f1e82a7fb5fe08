"""One point of the loop's search space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from autotune.core.types import RankForm, StoreMode
from autotune.online.settings import OnlineSettings

_OF_THE_FIT = (
    "trees",
    "learning_rate",
    "min_samples_leaf",
    "l2",
    "near_quantile",
    "far_quantile",
    "pseudo_events",
)


@dataclass(frozen=True, slots=True)
class LoopSetting:
    """Values of every knob of the loop that the search may turn.

    Each means what the field of that name means in :class:`~autotune.online.settings.OnlineSettings` or
    :class:`~autotune.costs.reuse.ReuseSettings`; ``store_mode`` is the engine's.
    """

    trees: int
    learning_rate: float
    min_samples_leaf: int
    l2: float
    near_quantile: float
    far_quantile: float
    pseudo_events: float
    device_age_frac: float
    ticks_per_horizon: float
    copy_factor: float
    store_mode: StoreMode
    refit_growth: float
    first_fit_requests: int
    form: RankForm = RankForm.HAZARD

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> LoopSetting:
        """The setting with these values, in which words stand for modes and forms."""
        words = {"store_mode": StoreMode(values["store_mode"]), "form": RankForm(values.get("form", RankForm.HAZARD))}
        return cls(**{**values, **words})

    @classmethod
    def of(cls, settings: OnlineSettings, store_mode: StoreMode = StoreMode.LAZY) -> LoopSetting:
        """The point that stands for settings of the loop."""
        names = {field.name for field in fields(cls)} - {"store_mode"}
        values: dict[str, Any] = {
            name: getattr(settings.fit if name in _OF_THE_FIT else settings, name) for name in names
        }
        return cls(store_mode=store_mode, **values)

    def online(self, base: OnlineSettings) -> OnlineSettings:
        """Settings of the loop with these values; everything else is as in ``base``."""
        values = asdict(self)
        del values["store_mode"]
        fit = replace(base.fit, **{name: values.pop(name) for name in _OF_THE_FIT})
        return replace(base, fit=fit, **values)
