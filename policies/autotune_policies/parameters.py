"""Numeric parameters of a policy: named defaults, ranges, and one line that says what was wrong."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autotune.core.errors import PolicyError
from autotune.core.eviction import EvictionPolicy, TierContext


@dataclass(frozen=True, slots=True)
class Interval:
    """Values that a parameter may take.

    Attributes:
        low: Smallest value.
        high: Largest value.
        open_low: Whether ``low`` itself is excluded.
        whole: Whether only whole numbers are allowed.
    """

    low: float
    high: float = math.inf
    open_low: bool = False
    whole: bool = False

    def holds(self, value: float) -> bool:
        """Whether ``value`` is finite and in the interval."""
        if not math.isfinite(value) or (self.whole and value != math.floor(value)):
            return False
        return value <= self.high and (value > self.low if self.open_low else value >= self.low)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        end = "∞)" if self.high == math.inf else f"{self.high:g}]"
        return f"{kind} in {'(' if self.open_low else '['}{self.low:g}, {end}"


class ParameterisedPolicy(EvictionPolicy):
    """A policy with named numeric parameters.

    Attributes:
        PARAMETERS: Default of each parameter.
        RANGES: Allowed values of each parameter.

    Args:
        context: The tier that the policy governs.
        params: Values for some of the parameters; the others keep their defaults.

    Raises:
        PolicyError: A parameter is unknown, or its value is out of range.
    """

    PARAMETERS: ClassVar[dict[str, float]] = {}
    RANGES: ClassVar[dict[str, Interval]] = {}

    def __init__(self, context: TierContext, **params: float) -> None:
        super().__init__(context)
        self._params = read_parameters(self.name, self.PARAMETERS, self.RANGES, params)


def read_parameters(
    policy: str, defaults: Mapping[str, float], ranges: Mapping[str, Interval], given: Mapping[str, float]
) -> dict[str, float]:
    """The parameters of a policy: ``defaults`` overlaid with ``given``.

    Raises:
        PolicyError: A name in ``given`` is unknown (the message lists the known ones) or a value is out of range.
    """
    for name, value in given.items():
        if name not in defaults:
            raise PolicyError(f"policy {policy} must know the parameter", got=repr(name), remedy=_known(name, defaults))
        if not ranges[name].holds(value):
            raise PolicyError(f"{name} of policy {policy} must be {ranges[name]}", got=repr(value))
    return {name: float(given.get(name, default)) for name, default in defaults.items()}


def _known(name: str, defaults: Mapping[str, float]) -> str:
    if not defaults:
        return "it has no parameters"
    near = difflib.get_close_matches(name, defaults, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known: {', '.join(defaults)}"
