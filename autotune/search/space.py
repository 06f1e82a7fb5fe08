"""The search space: which knobs move, and how far; read from YAML."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from pydantic import Field, model_validator

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.types import Admission
from autotune.core.validation import BrokenRuleError, Strict, validate
from autotune.search.setting import LRU_SETTING, Setting

Value = float | int | str | None


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
        forms = [self.low is not None or self.high is not None, self.choices is not None, "value" in self.model_fields_set]
        if sum(forms) != 1:
            raise BrokenRuleError(
                "a knob is a range, a list of choices or a fixed value", got=f"{sum(forms)} of the three"
            )
        if forms[0]:
            self._check_range()
        if self.choices is not None and not self.choices:
            raise BrokenRuleError("choices must not be empty")
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

    def draw(self, name: str, trial: Suggests) -> Value:
        """A value for this trial."""
        if self.choices is not None:
            return self.choices[0] if len(self.choices) == 1 else trial.suggest_categorical(name, self.choices)
        if self.low is None or self.high is None:
            return self.value
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return self._switched(trial.suggest_float(name, float(self.low), float(self.high), log=self.log))

    def _switched(self, drawn: float) -> float:
        return 0.0 if self.none_above is not None and drawn > self.none_above else drawn

    def distribution(self) -> BaseDistribution:
        """The knob as an Optuna distribution; only for knobs that move."""
        if self.choices is not None:
            return CategoricalDistribution(self.choices)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return IntDistribution(self.low, self.high, log=self.log)
        return FloatDistribution(float(self.low or 0.0), float(self.high or 0.0), log=self.log)

    def nearest(self, wanted: Value) -> Value:
        """The value inside this knob that is closest to ``wanted``, as a trial would draw it."""
        if self.choices is not None:
            return wanted if wanted in self.choices else self.choices[0]
        if self.low is None or self.high is None:
            return self.value
        if self.none_above is not None and not wanted:
            return self.high
        number = wanted if isinstance(wanted, int | float) else self.low
        return min(max(number, self.low), self.high)


class SearchSpace(Strict):
    """All knobs; see :class:`~autotune.search.setting.Setting` for what they mean."""

    lambda_recency: Knob
    tau_turnovers: Knob
    half_life_turnovers: Knob
    cost_weight: Knob
    ghost_ratio: Knob
    admission: Knob
    min_load_tokens: Knob
    resident_frac: Knob
    prefetch_depth: Knob
    chunk_blocks: Knob

    def draw(self, trial: Suggests) -> Setting:
        """The setting that a trial stands for.

        Raises:
            SearchError: a knob gives a value that the setting cannot have.
        """
        values = {name: knob.draw(name, trial) for name, knob in self._knobs()}
        return _setting(values)

    def lru_parameters(self) -> dict[str, Value]:
        """Parameters of the trial that stands for LRU's own setting, or comes closest to it in this space."""
        return self.parameters_of(LRU_SETTING)

    def parameters_of(self, setting: Setting) -> dict[str, Value]:
        """Parameters of the trial that stands for a setting, or comes closest to it in this space."""
        return {name: knob.nearest(_plain(getattr(setting, name))) for name, knob in self._knobs() if knob.moves}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distributions of the knobs that move."""
        return {name: knob.distribution() for name, knob in self._knobs() if knob.moves}

    def moving(self) -> tuple[str, ...]:
        """Names of the knobs that move."""
        return tuple(name for name, knob in self._knobs() if knob.moves)

    def _knobs(self) -> list[tuple[str, Knob]]:
        return [(name, getattr(self, name)) for name in type(self).model_fields]


def space_names() -> tuple[str, ...]:
    """Names of the spaces that the package ships, sorted."""
    folder = files("autotune_configs") / "search"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def load_space(name_or_path: str | Path = "default") -> SearchSpace:
    """A search space that the package ships, or one from a file.

    Raises:
        SearchError: there is no such space or file, or it is not valid.
    """
    if str(name_or_path) in space_names():
        text = (files("autotune_configs") / "search" / f"{name_or_path}.yaml").read_text("utf-8")
    elif Path(name_or_path).suffix in (".yaml", ".yml"):
        text = read_text(Path(name_or_path), SearchError)
    else:
        raise SearchError(
            "a search space is a name or a YAML file", got=repr(str(name_or_path)), remedy=f"known: {', '.join(space_names())}"
        )
    return validate(SearchSpace, parse_mapping(text, SearchError), SearchError, f"search space {name_or_path}")


def _plain(value: object) -> Value:
    return str(value) if isinstance(value, Admission) else value  # type: ignore[return-value]


def _setting(values: dict[str, Any]) -> Setting:
    try:
        admission = Admission(values.pop("admission"))
        return Setting(admission=admission, **values)
    except (TypeError, ValueError) as error:
        raise SearchError(
            "every knob needs a value that its setting can have", got=error, remedy="see configs/search/default.yaml"
        ) from error
