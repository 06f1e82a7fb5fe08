"""Settings of the policy that learns while it runs: the section ``online`` of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from autotune.core.types import RankForm, StoreMode
from autotune.core.validation import Strict

Seconds = Annotated[float, Field(ge=0.0, le=31_536_000.0)]
OpenFrac = Annotated[float, Field(gt=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class ReuseModelSettings(Strict):
    """How the model of reuse is fitted."""

    trees: int = Field(default=80, ge=1, le=10_000, description="Trees per horizon.")
    learning_rate: float = Field(default=0.15, gt=0.0, le=1.0, description="Share of each tree that counts.")
    min_samples_leaf: Count = Field(default=100, description="Fewest rows in a leaf of a tree.")
    l2: float = Field(
        default=100.0,
        ge=0.0,
        le=1e9,
        description="Pull of every leaf towards no difference, as so much evidence that there is none: rows of mean "
        "size times P (1 - P).",
    )
    max_bins: int = Field(default=64, ge=2, le=255, description="Bins per feature.")
    max_depth: int = Field(default=2, ge=1, le=2, description="2 = pairs of features, 1 = each feature by itself.")
    near_quantile: OpenFrac = Field(default=0.5, description="Quantile of the reuse gaps that is the near horizon.")
    far_quantile: OpenFrac = Field(default=0.9, description="Quantile of the reuse gaps that is the far horizon.")
    max_horizon_frac: OpenFrac = Field(
        default=0.4, description="Longest horizon, as a share of the time that has passed."
    )
    pseudo_events: float = Field(
        default=5.0,
        ge=0.0,
        le=1e9,
        description="Weight of the curve of all blocks in that of a class, in reuses of mean size.",
    )
    max_rows: Count = Field(
        default=100_000, description="Rows that one fit uses; of more, as many are drawn. Bounds its time and memory."
    )
    max_tree_rows: Count = Field(
        default=20_000, description="Rows that the trees of one horizon are fitted on; of more, as many are drawn."
    )
    min_rows: Count = Field(
        default=400, description="Fewest rows whose fate is known, without which nothing is fitted."
    )
    min_events: Count = Field(default=40, description="Fewest reuses, without which nothing is fitted.")


def _said(name: str) -> str:
    return ReuseModelSettings.model_fields[name].description or ""


class LoopFitSettings(ReuseModelSettings):
    """The same for a loop, which fits often and begins with little."""

    trees: int = Field(default=24, ge=1, le=10_000, description=_said("trees"))
    learning_rate: float = Field(default=0.19, gt=0.0, le=1.0, description=_said("learning_rate"))
    min_samples_leaf: Count = Field(default=50, description=_said("min_samples_leaf"))
    max_rows: Count = Field(default=16_000, description=_said("max_rows"))
    max_tree_rows: Count = Field(default=6_000, description=_said("max_tree_rows"))
    min_rows: Count = Field(default=100, description=_said("min_rows"))
    min_events: Count = Field(default=10, description=_said("min_events"))


class LearningGuardSettings(Strict):
    """When what was learned is obeyed, and when no longer."""

    min_period_requests: Count = Field(
        default=64, description="Shortest period, in requests, over which the ways to run are compared."
    )
    periods_per_turnover: float = Field(
        default=4.0, gt=0.0, le=1000.0, description="Periods in one turnover of device and host together."
    )
    discount: float = Field(
        default=0.95, gt=0.0, le=1.0, description="Weight of a period against the one after it; 1 = nothing fades."
    )
    min_periods: Count = Field(
        default=4, description="Periods before what was learned may be obeyed, and between any two changes."
    )
    enter_errors: float = Field(
        default=1.0,
        ge=0.0,
        le=100.0,
        description="Standard errors by which the mean gain of what was learned must exceed 0 before it is obeyed.",
    )
    enter_frac: float = Field(
        default=0.003,
        ge=0.0,
        lt=1.0,
        description="Share of LRU's seconds that this gain must exceed besides.",
    )
    leave_errors: float = Field(
        default=0.5,
        ge=-100.0,
        le=100.0,
        description="Standard errors by which LRU must be better before it is taken again.",
    )
    drop_errors: float = Field(
        default=3.0,
        ge=0.0,
        le=1e9,
        description="Standard errors by which a form of the learned rule must lose against the one in force, before it "
        "is no longer compared until the next fit.",
    )


class LearningSettings(Strict):
    """The policy ``online``: starts as LRU, learns on what has passed, and obeys it where its guard allows."""

    store_mode: StoreMode = Field(
        default=StoreMode.LAZY,
        description="When the host gets a block: eager, lazy or exclusive. Until something is learned, lazy and "
        "exclusive stores go with one LRU over both tiers, which holds all that LRU with eager stores would hold.",
    )
    first_fit_requests: Count = Field(default=100, description="Requests before the first fit.")
    refit_growth: float = Field(
        default=1.4,
        gt=1.0,
        le=1e9,
        description="The next fit comes when this many times as many requests were seen.",
    )
    refit_max_requests: Count = Field(default=4000, description="But after this many requests at the latest.")
    publish_delay_s: Seconds = Field(
        default=5.0, description="Seconds from a fit to the moment that its model is in force."
    )
    window_rows: Count = Field(
        default=100_000, description="Newest rows (runs of blocks) that are kept to learn from. Bounds the memory."
    )
    device_age_frac: float = Field(
        default=0.3,
        ge=0.0,
        le=1000.0,
        description="D, the age up to which a reuse is a hit on the device anyway, in turnovers of the device.",
    )
    ticks_per_horizon: float = Field(
        default=20.0,
        gt=0.0,
        le=1e6,
        description="How often residents are ranked anew within the near horizon, or the host's turnover where that is "
        "shorter.",
    )
    form: RankForm | None = Field(
        default=None,
        description="How what is learned ranks blocks: hazard = by class and age, anew in every tick; fixed_key = by a "
        "key that does not change while a block lies idle, for engines that order blocks once; null = as the guard "
        "finds either better.",
    )
    copy_factor: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Factor on the host rank of a block that the device holds too; 0 = such copies leave first.",
    )
    forget_s: float = Field(
        default=14_400.0, gt=0.0, le=31_536_000.0, description="Seconds for which an unused block is remembered."
    )
    write_bytes_per_s: float = Field(
        default=0.0,
        ge=0.0,
        le=1e15,
        description="Bytes per second that may be stored to the host on average; 0 = as many as come.",
    )
    write_burst_s: Seconds = Field(default=3600.0, description="Seconds of that budget that may be saved up.")
    shadow_frac: float = Field(
        default=1.0, gt=0.0, le=1.0, description="Share of chains of requests that the shadow caches see."
    )
    shadow_min_blocks: Count = Field(
        default=500, description="Sampled blocks on the device below which the shadow caches see everything."
    )
    fit: LoopFitSettings = Field(default=LoopFitSettings(), description="How the model of reuse is fitted.")
    guard: LearningGuardSettings = Field(
        default=LearningGuardSettings(), description="When what was learned is obeyed, and when no longer."
    )
