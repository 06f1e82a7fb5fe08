"""Tables of scores in a document: one feature's effect, two features' interaction, and what they add up to.

Scores stand there as decimals of 13 places. That is finer than their unit of 2**-40, so reading gives back the very
whole numbers that were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from autotune.core.decide.features import FEATURES, MEANINGS
from autotune.core.policy.quantities import MAX_SECONDS
from autotune.core.reuse import NO_FEATURE, SCORE_UNIT, Calibration, HorizonModel, ScoreTable
from autotune.core.validation import BrokenRuleError, Strict, nearest

DECIMALS = 13
_MAX_SCORE = 4096.0  # up to here, 13 decimals and a float's digits are finer than the unit
_MAX_CUTS = 255
_MAX_TABLES = 512


def to_whole(score: float) -> int:
    """A score in units of 2**-40."""
    return round(score / SCORE_UNIT)


def to_score(whole: int) -> float:
    """A whole number of units as a score."""
    return whole * SCORE_UNIT


def _known_feature(name: str) -> str:
    if name not in MEANINGS:
        raise BrokenRuleError("a feature must be one that this reader knows", got=name, remedy=nearest(name, FEATURES))
    return name


def _ascending(cuts: tuple[float, ...]) -> tuple[float, ...]:
    if any(later <= earlier for earlier, later in pairwise(cuts)):
        raise BrokenRuleError("cuts of a table must ascend, each once", got=cuts)
    return cuts


FeatureName = Annotated[str, AfterValidator(_known_feature), Field(json_schema_extra={"enum": list(FEATURES)})]
Score = Annotated[float, AfterValidator(lambda score: to_score(to_whole(score))), Field(ge=-_MAX_SCORE, le=_MAX_SCORE)]
Cuts = Annotated[tuple[float, ...], AfterValidator(_ascending), Field(max_length=_MAX_CUTS)]
Scores = Annotated[tuple[Score, ...], Field(min_length=1, max_length=_MAX_CUTS + 1)]


class MainEffect(Strict):
    """What one feature adds to the score by itself."""

    number_rows: ClassVar[Mapping[str, int | None]] = {"cuts": None, "scores": DECIMALS}

    feature: FeatureName = Field(description="The feature; -1 as its value means that it is not known.")
    cuts: Cuts = Field(description="Where the score changes; a value that equals a cut belongs below it.")
    scores: Scores = Field(description="Score by value, in log odds: positive means that reuse is likelier.")

    @model_validator(mode="after")
    def _one_score_per_bin(self) -> MainEffect:
        _check_length(len(self.scores), self.cuts, self.feature)
        return self

    def row_notes(self, name: str) -> tuple[str, ...]:
        """The values that a score is for."""
        return tuple(spans(self.cuts)) if name == "scores" else ()


class PairTable(Strict):
    """What two features add together, beyond what each adds by itself."""

    number_rows: ClassVar[Mapping[str, int | None]] = {"row_cuts": None, "column_cuts": None, "scores": DECIMALS}

    rows: FeatureName = Field(description="Feature whose value chooses the row.")
    columns: FeatureName = Field(description="Feature whose value chooses the column.")
    row_cuts: Cuts = Field(
        description="Where one row ends and the next begins; a value that equals a cut is in the row that ends."
    )
    column_cuts: Cuts = Field(description="Where one column ends and the next begins.")
    scores: Annotated[tuple[Scores, ...], Field(min_length=1, max_length=_MAX_CUTS + 1)] = Field(
        description="Rows of scores, in log odds."
    )

    @model_validator(mode="after")
    def _one_score_per_cell(self) -> PairTable:
        if self.rows == self.columns:
            raise BrokenRuleError("a table of two features needs two", got=f"{self.rows} twice")
        _check_length(len(self.scores), self.row_cuts, self.rows)
        for row in self.scores:
            _check_length(len(row), self.column_cuts, self.columns)
        return self

    def row_notes(self, name: str) -> tuple[str, ...]:
        """The values that a row is for."""
        return tuple(f"{self.rows} {span}" for span in spans(self.row_cuts)) if name == "scores" else ()


class CalibrationTable(Strict):
    """From score to probability, linear between the points and constant outside."""

    number_rows: ClassVar[Mapping[str, int | None]] = {"scores": DECIMALS, "probabilities": None}

    scores: Scores = Field(description="Scores, ascending.")
    probabilities: Annotated[tuple[Annotated[float, Field(ge=0.0, le=1.0)], ...], Field(min_length=1)] = Field(
        description="Probability at each score, never falling."
    )

    @model_validator(mode="after")
    def _never_falls(self) -> CalibrationTable:
        if len(self.scores) != len(self.probabilities):
            raise BrokenRuleError(
                "calibration has one probability per score", got=f"{len(self.probabilities)} for {len(self.scores)}"
            )
        _ascending(self.scores)
        if list(self.probabilities) != sorted(self.probabilities):
            raise BrokenRuleError("probabilities of a calibration must not fall", got=self.probabilities)
        return self

    @classmethod
    def of(cls, table: Calibration) -> CalibrationTable:
        """The section for a table."""
        return cls(scores=tuple(map(to_score, table.scores)), probabilities=table.probabilities)

    def table(self) -> Calibration:
        """The table that this section holds."""
        return Calibration(tuple(map(to_whole, self.scores)), self.probabilities)


class Horizon(Strict):
    """Log odds that a block is used again within a horizon."""

    leave_out_none: ClassVar[bool] = True

    horizon_s: float = Field(ge=0.0, le=MAX_SECONDS, description="The horizon in seconds.")
    base_score: Score = Field(description="Score of the average block, in log odds; the tables say what differs.")
    main_effects: tuple[MainEffect, ...] = Field(
        default=(), max_length=_MAX_TABLES, description="One table per feature: what it says by itself."
    )
    pairs: tuple[PairTable, ...] = Field(
        default=(), max_length=_MAX_TABLES, description="One table per pair of features: what they say only together."
    )
    calibration: CalibrationTable | None = Field(
        default=None,
        description="From score to probability, where the newest data asked for a correction; absent = "
        "1 / (1 + exp(-score)).",
    )

    @model_validator(mode="after")
    def _each_table_once(self) -> Horizon:
        names = [effect.feature for effect in self.main_effects]
        names += [" and ".join(sorted((pair.rows, pair.columns))) for pair in self.pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BrokenRuleError("a horizon has one table per feature and pair", got=f"two for {twice[0]}")
        return self

    @property
    def used_features(self) -> set[str]:
        """Features that some table uses."""
        return {effect.feature for effect in self.main_effects} | {
            feature for pair in self.pairs for feature in (pair.rows, pair.columns)
        }

    @classmethod
    def of(cls, model: HorizonModel) -> Horizon:
        """The section for a model."""
        return cls(
            horizon_s=model.horizon_s,
            base_score=to_score(model.base),
            main_effects=tuple(_effect(table) for table in model.tables if table.second == NO_FEATURE),
            pairs=tuple(_pair(table) for table in model.tables if table.second != NO_FEATURE),
            calibration=None if model.calibration is None else CalibrationTable.of(model.calibration),
        )

    def model(self) -> HorizonModel:
        """The model that this section holds; main effects come first."""
        return HorizonModel(
            horizon_s=self.horizon_s,
            base=to_whole(self.base_score),
            tables=(*map(_effect_table, self.main_effects), *map(_pair_table, self.pairs)),
            calibration=None if self.calibration is None else self.calibration.table(),
        )


def spans(cuts: tuple[float, ...]) -> list[str]:
    """The values between cuts, in words: ``≤ 16``, ``16 … 512``, ``> 512``."""
    if not cuts:
        return ["any value"]
    between = [f"{low:g} … {high:g}" for low, high in pairwise(cuts)]
    return [f"≤ {cuts[0]:g}", *between, f"> {cuts[-1]:g}"]


def _check_length(length: int, cuts: tuple[float, ...], feature: str) -> None:
    if length != len(cuts) + 1:
        raise BrokenRuleError(
            "a table has one score more than cuts in each direction",
            got=f"{length} scores for {len(cuts)} cuts of {feature}",
        )


def _effect(table: ScoreTable) -> MainEffect:
    scores = tuple(to_score(score) for score in table.scores[:, 0].tolist())
    return MainEffect(feature=FEATURES[table.first], cuts=table.first_cuts, scores=scores)


def _pair(table: ScoreTable) -> PairTable:
    return PairTable(
        rows=FEATURES[table.first],
        columns=FEATURES[table.second],
        row_cuts=table.first_cuts,
        column_cuts=table.second_cuts,
        scores=tuple(tuple(to_score(score) for score in row) for row in table.scores.tolist()),
    )


def _effect_table(effect: MainEffect) -> ScoreTable:
    scores = np.array([[to_whole(score)] for score in effect.scores], np.int64)
    return ScoreTable(FEATURES.index(effect.feature), NO_FEATURE, effect.cuts, (), scores)


def _pair_table(pair: PairTable) -> ScoreTable:
    scores = np.array([[to_whole(score) for score in row] for row in pair.scores], np.int64)
    return ScoreTable(FEATURES.index(pair.rows), FEATURES.index(pair.columns), pair.row_cuts, pair.column_cuts, scores)
