"""Tables of an engine's own settings: which names there are, and which values each of them takes.

An engine's parser lets some mistakes through, and not every engine can be installed where a policy is exported. What is
rendered is therefore held against a table in ``autotune_configs/engines``, which names its source.
"""

from __future__ import annotations

import difflib
from importlib import resources
from typing import Literal

from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.strict_yaml import parse_mapping
from autotune.core.validation import Strict, validate
from autotune.export.renderer import Settings, Value

_FOLDER = resources.files("autotune_configs") / "engines"


class Setting(Strict):
    """The values that one setting takes."""

    type: Literal["int", "float", "bool", "str", "list", "dict"] = Field(description="Type of the value.")
    nullable: bool = Field(default=False, description="Whether it may be null.")
    choices: tuple[str, ...] = Field(default=(), description="All values of a text that the engine knows; [] = any.")
    minimum: float | None = Field(default=None, description="Smallest value.")
    maximum: float | None = Field(default=None, description="Largest value.")
    default: str | int | float | bool | None = Field(default=None, description="What the engine takes without it.")
    refused: str = Field(default="", description="Why the value must not be given, although the engine accepts it.")

    def fault(self, value: Value) -> str:
        """What is wrong with a value; empty if nothing is."""
        if self.refused:
            return self.refused
        if value is None:
            return "" if self.nullable else "must not be null"
        if not self._has_type(value):
            return f"must be of type {self.type}"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if isinstance(value, int | float) and not self._in_range(value):
            return f"must be {self._range()}"
        return ""

    def _has_type(self, value: Value) -> bool:
        if isinstance(value, bool):
            return self.type == "bool"
        if self.type == "float":
            return isinstance(value, int | float)
        return type(value).__name__ == self.type

    def _in_range(self, value: float) -> bool:
        above = self.minimum is None or value >= self.minimum
        return above and (self.maximum is None or value <= self.maximum)

    def _range(self) -> str:
        low = "" if self.minimum is None else f"at least {self.minimum:g}"
        high = "" if self.maximum is None else f"at most {self.maximum:g}"
        return " and ".join(filter(None, (low, high)))


class FieldTable(Strict):
    """The settings of one engine."""

    engine: str = Field(min_length=1, description="Name of the engine.")
    versions: str = Field(min_length=1, description="Versions that the table is for.")
    source: str = Field(min_length=1, description="Where the names and values were read.")
    fields: dict[str, Setting] = Field(description="Name of a setting → the values it takes.")

    def check(self, settings: Settings) -> Settings:
        """The same settings.

        Raises:
            ConfigError: one of them is unknown to the engine, or has a value that it does not take.
        """
        for name, value in settings.items():
            if name not in self.fields:
                raise ConfigError(
                    f"{name} is no setting of {self.engine} {self.versions}",
                    got=f"{value!r}",
                    remedy=f"{self._hint(name)}see {self.source}",
                )
            if fault := self.fields[name].fault(value):
                raise ConfigError(f"{name} of {self.engine} {fault}", got=f"{value!r}", remedy=f"see {self.source}")
        return settings

    def _hint(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.fields, n=1)
        return f"did you mean {near[0]}? " if near else ""


def table(name: str) -> FieldTable:
    """The table of an engine, by the name of its file."""
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return validate(FieldTable, parse_mapping(text, ConfigError), ConfigError, f"engine {name}")
