"""The learned policy in a document: knobs of the class-hazard rule, and the reuse model as tables."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from autotune.core.decide.features import MEANINGS
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES, N_EDGES
from autotune.core.policy.quantities import MAX_SECONDS, Tokens
from autotune.core.policy.rank_prices import RankPrices
from autotune.core.policy.reuse_tables import FeatureName, Horizon, Score, to_score, to_whole
from autotune.core.reuse import ReuseModel
from autotune.core.types import RankForm
from autotune.core.validation import BrokenRuleError, Strict

_Cuts = tuple[Score, Score, Score]
_Edges = Annotated[tuple[float, ...], Field(min_length=N_EDGES, max_length=N_EDGES)]
_Hazard = Annotated[float, Field(ge=0.0, le=1e12)]
_HazardRow = Annotated[tuple[_Hazard, ...], Field(min_length=N_AGE_BINS, max_length=N_AGE_BINS)]


def _ascending_ages(edges_s: tuple[float, ...]) -> tuple[float, ...]:
    # Ages are compared in whole nanoseconds.
    if any(later - earlier < 1e-9 for earlier, later in pairwise((0.0, *edges_s))) or edges_s[-1] > MAX_SECONDS:
        raise BrokenRuleError(
            f"class_hazard.edges_s must ascend from above 0 to at most {MAX_SECONDS:g} s", got=f"{edges_s[:3]}…"
        )
    return edges_s


class ClassHazardSection(Strict):
    """Evict the block that saves the fewest expected seconds per block-second from now on."""

    leave_out_none: ClassVar[bool] = True
    number_rows: ClassVar[Mapping[str, int | None]] = {
        "near_cuts": 13,
        "far_cuts": 13,
        "edges_s": None,
        "hazard_per_s": None,
    }

    device_age_s: float = Field(
        ge=0.0,
        le=MAX_SECONDS,
        description="D: age up to which a reuse is a hit on the device and gains the host nothing, in seconds; 0 = "
        "every reuse counts.",
    )
    form: RankForm = Field(
        default=RankForm.HAZARD,
        description="hazard: blocks are ranked by class and age, anew every rerank_s. fixed_key: by the time of their "
        "last use plus three near horizons times ((0.7 * log2(uses) + near score + far score) / 3 + ln(seconds at "
        "stake)), which does not change while a block lies idle.",
    )
    rerank_s: float | None = Field(
        default=None,
        gt=0.0,
        le=MAX_SECONDS,
        description="How often residents are ranked anew, in seconds; under fixed_key they never are, so it is absent.",
    )
    copy_factor: float = Field(
        default=1.0,
        ge=0.0,
        le=1.0,
        description="φ: factor on the host rank of a block that the device holds too; 0 = such copies leave first.",
    )
    history_tokens: Tokens = Field(
        default=0,
        description="Tokens whose past is remembered after they have left, the newest; 0 = as many as the tiers hold.",
    )
    prices: RankPrices | None = Field(
        default=None,
        description="Ranks or keys at which blocks left when the rule was in force; 'explain' compares with them. "
        "Absent = not measured.",
    )
    features: tuple[FeatureName, ...] = Field(
        max_length=256, description="What was known about blocks when the model was fitted; no table uses more."
    )
    near: Horizon = Field(
        description="Log odds that a block is used again within the near horizon: base_score plus one entry of every "
        "table. A score of 0 is a probability of one half; the probability is 1 / (1 + exp(-score))."
    )
    far: Horizon = Field(description="The same for the far horizon.")
    near_cuts: _Cuts = Field(
        description="Quartiles of the near score. Class = 4 * (how many of these the near score exceeds) + (how many "
        "of its row in far_cuts the far score exceeds)."
    )
    far_cuts: tuple[_Cuts, _Cuts, _Cuts, _Cuts] = Field(
        description="Quartiles of the far score within each quartile of the near score."
    )
    edges_s: Annotated[_Edges, AfterValidator(_ascending_ages)] = Field(
        description="Ages in seconds between which the hazard of a class is constant; the first row entry of "
        "hazard_per_s is for ages below the first, the last for ages from the last one on."
    )
    hazard_per_s: Annotated[tuple[_HazardRow, ...], Field(min_length=N_CLASSES, max_length=N_CLASSES)] = Field(
        description="Reuses per block and second, one row per class, by age since the last use. Blocks are ranked by "
        "the seconds that a reuse saves times the best expected reuse per second of keeping that this curve allows."
    )

    @model_validator(mode="after")
    def _is_ranked_by_its_form(self) -> ClassHazardSection:
        is_fixed = self.form is RankForm.FIXED_KEY
        if not is_fixed and self.rerank_s is None:
            raise BrokenRuleError("class_hazard.rerank_s must be given under form hazard", remedy="say how often")
        if is_fixed and self.rerank_s is not None:
            raise BrokenRuleError(
                "class_hazard.rerank_s belongs to form hazard: a fixed key is never ranked anew",
                got=f"{self.rerank_s:g} under form fixed_key",
                remedy="leave it away",
            )
        if self.prices is not None and self.prices.form is not self.form:
            kind = "keys" if is_fixed else "ranks"
            raise BrokenRuleError(f"class_hazard.prices are {kind} under form {self.form}", got=f"{self.prices.form}'s")
        return self

    @model_validator(mode="after")
    def _parts_agree(self) -> ClassHazardSection:
        unknown = sorted({*self.near.used_features, *self.far.used_features} - set(self.features))
        if unknown:
            raise BrokenRuleError(
                "tables of class_hazard use only features that class_hazard.features lists", got=", ".join(unknown)
            )
        for cuts in (self.near_cuts, *self.far_cuts):
            if list(cuts) != sorted(cuts):
                raise BrokenRuleError("cuts of class_hazard's classes must ascend", got=cuts)
        return self

    def row_notes(self, name: str) -> tuple[str, ...]:
        """Which class or quartile a row stands for, and what a feature is."""
        if name == "features":
            return tuple(MEANINGS[feature] for feature in self.features)
        if name == "hazard_per_s":
            return tuple(f"class {k}" for k in range(N_CLASSES))
        if name == "far_cuts":
            return tuple(f"where the near score exceeds {k} of near_cuts" for k in range(len(self.far_cuts)))
        return ()

    @classmethod
    def of(
        cls,
        model: ReuseModel,
        *,
        device_age_s: float,
        rerank_s: float | None,
        copy_factor: float = 1.0,
        history_tokens: int = 0,
        prices: RankPrices | None = None,
        form: RankForm = RankForm.HAZARD,
    ) -> ClassHazardSection:
        """The section for a model and its knobs, with prices if they were measured."""
        low, middle, high = model.near_cuts
        return cls(
            device_age_s=device_age_s,
            form=form,
            rerank_s=rerank_s,
            copy_factor=copy_factor,
            history_tokens=history_tokens,
            prices=prices,
            features=model.features,
            near=Horizon.of(model.near),
            far=Horizon.of(model.far),
            near_cuts=(to_score(low), to_score(middle), to_score(high)),
            far_cuts=tuple(tuple(to_score(cut) for cut in cuts) for cuts in model.far_cuts),  # type: ignore[arg-type]
            edges_s=model.edges_s,
            hazard_per_s=tuple(tuple(row) for row in model.hazard_per_s.tolist()),
        )

    @property
    def tick_s(self) -> float:
        """Seconds between two rankings of all residents; a fixed key outlives any that may be given."""
        return MAX_SECONDS if self.rerank_s is None else self.rerank_s

    def model(self) -> ReuseModel:
        """The reuse model that this section holds."""
        low, middle, high = (to_whole(cut) for cut in self.near_cuts)
        return ReuseModel(
            features=self.features,
            near=self.near.model(),
            far=self.far.model(),
            near_cuts=(low, middle, high),
            far_cuts=tuple((to_whole(a), to_whole(b), to_whole(c)) for a, b, c in self.far_cuts),
            edges_s=self.edges_s,
            hazard_per_s=np.array(self.hazard_per_s),
        )
