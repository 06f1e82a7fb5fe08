"""One knob of the search space: a range, a list of choices, or a fixed value; and which values each knob may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, Protocol, TypeVar, get_args

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from pydantic import Field, create_model, model_validator
from pydantic.fields import FieldInfo

from autotune.core.types import Admission
from autotune.core.validation import BrokenRuleError, Strict
from autotune.search.online.setting import LoopSetting

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Values that a knob may have, whatever the space says.

    Attributes:
        low: Smallest number.
        high: Largest number.
        above_low: Whether the number must be above ``low``.
        below_high: Whether it must be below ``high``.
        whole: Whether it is a whole number.
        or_null: Whether null is a value too: as given.
    """

    low: float
    high: float
    above_low: bool = False
    below_high: bool = False
    whole: bool = False
    or_null: bool = False

    @classmethod
    def of(cls, field: FieldInfo) -> Allowed:
        """What a field with a range at both ends may have."""
        edges = {edge: value for each in field.metadata for edge, value in asdict(each).items()}
        return cls(
            low=edges["gt" if "gt" in edges else "ge"],
            high=edges["lt" if "lt" in edges else "le"],
            above_low="gt" in edges,
            below_high="lt" in edges,
            whole=field.annotation is int,
        )

    def holds(self, value: Value) -> bool:
        """Whether a value is allowed."""
        if value is None:
            return self.or_null
        if isinstance(value, str) or (self.whole and not isinstance(value, int)):
            return False
        above = self.low < value if self.above_low else self.low <= value
        return above and (value < self.high if self.below_high else value <= self.high)

    def __str__(self) -> str:
        number = "a whole number" if self.whole else "a number"
        edge = "above" if self.above_low else "from"
        to = "and below" if self.below_high else "up to"
        return f"{number} {edge} {self.low:g} {to} {self.high:g}{' or null' if self.or_null else ''}"


def _words_of(field: FieldInfo) -> tuple[str | None, ...]:
    """The words that a field chooses between, null among them where it may be so; none where it is a number."""
    kinds = get_args(field.annotation) or (field.annotation,)
    words = tuple(word for kind in kinds if issubclass(kind, StrEnum) for word in kind)
    return (*words, None) if words and NoneType in kinds else words


ALLOWED = {
    "lambda_recency": Allowed(0.0, 1.0, above_low=True),
    "tau_turnovers": Allowed(0.0, 1e6, above_low=True),
    "half_life_turnovers": Allowed(0.0, 1e6),
    "cost_weight": Allowed(0.0, 100.0),
    "ghost_ratio": Allowed(0.0, 1000.0),
    "min_load_tokens": Allowed(0, 2**31 - 1, whole=True),
    "resident_frac": Allowed(0.0, 1.0, above_low=True, or_null=True),
    "prefetch_depth": Allowed(0, 1024, whole=True, or_null=True),
    "chunk_blocks": Allowed(1, 1024, whole=True),
} | {name: Allowed.of(field) for name, field in LoopSetting.model_fields.items() if not _words_of(field)}
WORDS: dict[str, tuple[str | None, ...]] = {"admission": tuple(Admission), "rule": ("rank", "learned")} | {
    name: words for name, field in LoopSetting.model_fields.items() if (words := _words_of(field))
}


class Suggests(Protocol):
    """The part of an Optuna trial that a knob draws from."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A real number from a range."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """A whole number from a range."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """One of several values."""


class Knob(Strict):
    """One knob: a range, a list of choices, or a fixed value."""

    low: float | int | None = Field(default=None, description="Smallest value of a range.")
    high: float | int | None = Field(default=None, description="Largest value of a range.")
    log: bool = Field(default=False, description="Whether the range is searched on a logarithmic scale.")
    none_above: float | None = Field(default=None, description="Draws above this mean 0 (switched off).")
    choices: tuple[Value, ...] | None = Field(default=None, description="The values to choose from.")
    value: Value = Field(default=None, description="The one value, if the knob does not move.")

    @model_validator(mode="after")
    def _one_form(self) -> Knob:
        is_range = self.low is not None or self.high is not None
        forms = [is_range, self.choices is not None, "value" in self.model_fields_set]
        if sum(forms) != 1:
            raise BrokenRuleError(
                "a knob is a range, a list of choices or a fixed value", got=f"{sum(forms)} of the three"
            )
        if is_range:
            self._check_range()
        elif self.log or self.none_above is not None:
            raise BrokenRuleError("log and none_above belong to a range", got="no range")
        if self.choices is not None and len(set(self.choices)) != max(1, len(self.choices)):
            raise BrokenRuleError("choices must not be empty, and each stands once", got=list(self.choices))
        return self

    def _check_range(self) -> None:
        if self.low is None or self.high is None or not self.low < self.high:
            raise BrokenRuleError("a range needs low < high", got=f"{self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise BrokenRuleError("a logarithmic range must be positive", got=f"low {self.low}")

    @property
    def moves(self) -> bool:
        """Whether there is more than one value to try."""
        return self.low is not None or (self.choices is not None and len(self.choices) > 1)

    def check(self, name: str) -> None:
        """Refuse values that this knob cannot have.

        Raises:
            BrokenRuleError: there is one.
        """
        values = self.choices or ((self.low, self.high) if self.low is not None else (self.value,))
        if name in WORDS:
            words = ", ".join(word or "null" for word in WORDS[name])
            allowed, wrong = f"one of {words}", [v for v in values if v not in WORDS[name]]
        else:
            allowed, wrong = str(ALLOWED[name]), [v for v in values if not ALLOWED[name].holds(v)]
        if wrong:
            raise BrokenRuleError(f"{name} must be {allowed}", got="null" if wrong[0] is None else wrong[0])
        if self.none_above is not None and not ALLOWED[name].holds(0):
            raise BrokenRuleError(f"none_above means 0, which {name} cannot be", got=self.none_above)

    def draw(self, name: str, trial: Suggests) -> Value:
        """A value for this trial."""
        if self.choices is not None:
            return self.choices[0] if len(self.choices) == 1 else trial.suggest_categorical(name, self.choices)
        if self.low is None or self.high is None:
            return self.value
        off = self.none_above if self.none_above is not None else math.inf
        if _is_whole(name):
            whole = trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
            return 0 if whole > off else whole
        drawn = trial.suggest_float(name, float(self.low), float(self.high), log=self.log)
        return 0.0 if drawn > off else drawn

    def distribution(self, name: str) -> BaseDistribution:
        """The knob as an Optuna distribution; only for knobs that move."""
        if self.choices is not None:
            return CategoricalDistribution(self.choices)
        low, high = self.low or 0, self.high or 0
        if _is_whole(name):
            return IntDistribution(int(low), int(high), log=self.log)
        return FloatDistribution(float(low), float(high), log=self.log)

    def nearest(self, wanted: Value) -> Value:
        """The value inside this knob that is closest to ``wanted``, as a trial would draw it."""
        if self.choices is not None:
            return _nearest_choice(self.choices, wanted)
        if self.low is None or self.high is None:
            return self.value
        if self.none_above is not None and not wanted:
            return self.high
        number = wanted if isinstance(wanted, int | float) else self.low
        return min(max(number, self.low), self.high)


def _is_whole(name: str) -> bool:
    return name in ALLOWED and ALLOWED[name].whole


def _nearest_choice(choices: tuple[Value, ...], wanted: Value) -> Value:
    numbers = [choice for choice in choices if isinstance(choice, int | float)]
    if wanted in choices or not numbers or not isinstance(wanted, int | float):
        return wanted if wanted in choices else choices[0]
    target = wanted
    return min(numbers, key=lambda number: abs(number - target))


class Knobs(Strict):
    """A space: every field is a knob."""

    @model_validator(mode="after")
    def _only_values_that_exist(self) -> Knobs:
        for name, knob in self._knobs():
            knob.check(name)
        return self

    def draw_values(self, trial: Suggests) -> dict[str, Any]:
        """Value of every knob for a trial."""
        return {name: knob.draw(name, trial) for name, knob in self._knobs()}

    def parameters_of(self, setting: object) -> dict[str, Value]:
        """Parameters of the trial that stands for a setting, or comes closest to it in this space."""
        return {name: knob.nearest(_plain(getattr(setting, name))) for name, knob in self._knobs() if knob.moves}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distributions of the knobs that move."""
        return {name: knob.distribution(name) for name, knob in self._knobs() if knob.moves}

    def moving(self) -> tuple[str, ...]:
        """Names of the knobs that move."""
        return tuple(name for name, knob in self._knobs() if knob.moves)

    def _knobs(self) -> list[tuple[str, Knob]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]


def _plain(value: object) -> Value:
    return str(value) if isinstance(value, str) else value  # type: ignore[return-value]  # enums become words


_Space = TypeVar("_Space", bound=Knobs)


def with_knobs_of(setting: type[Strict]) -> Callable[[type[_Space]], type[_Space]]:
    """Gives a space a knob for each field of a setting, after its own; a field with a default may be left out."""

    def with_knobs(space: type[_Space]) -> type[_Space]:
        knobs: dict[str, Any] = {
            name: (Knob, ... if field.is_required() else Knob(value=field.default))
            for name, field in setting.model_fields.items()
            if name not in space.model_fields
        }
        made: type[_Space] = create_model(
            space.__name__, __base__=space, __module__=space.__module__, __doc__=space.__doc__, **knobs
        )
        return made

    return with_knobs
