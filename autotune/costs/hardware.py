"""A machine by name or by a file of the same form."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec, LinkSpec
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.units import GB
from autotune.core.validation import BrokenRuleError, Strict, nearest, validate

_FOLDER = resources.files("autotune_configs") / "hardware"
_TERA = 1e12
_US_PER_S = 1e6


class _Figure(Strict):
    """A number and where it comes from."""

    value: float = Field(ge=0.0, le=1e9)
    source: str = Field(min_length=1)


def _positive(figure: _Figure) -> _Figure:
    if figure.value <= 0.0:
        raise BrokenRuleError("value must be greater than 0", got=figure.value)
    return figure
