"""Options of readers and conversions: unknown names and unfit values are refused in one line."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import ParamSpec

from autotune.core.errors import TraceError
from autotune.core.trace import Trace

P = ParamSpec("P")


def reader(read: Callable[P, Trace]) -> Callable[P, Trace]:
    """Make a reader refuse options that it does not know with a ``TraceError`` that lists those it does."""
    parameters = inspect.signature(read).parameters
    known = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]

    @functools.wraps(read)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Trace:
        unknown = sorted(set(kwargs) - set(parameters))
        if unknown:
            raise TraceError(
                "an option must be one that the trace format knows",
                got=", ".join(unknown),
                remedy=f"known: {', '.join(known)}",
            )
        return read(*args, **kwargs)

    return checked


def whole(name: str, value: object, *, low: int = 0, high: int = 2**31 - 1) -> int:
    """An option that is an integer from ``low`` to ``high``.

    Raises:
        TraceError: it is none.
    """
    if type(value) is not int or not low <= value <= high:
        raise TraceError(
            f"{name} must be an integer from {low} to {high}", got=repr(value), remedy="correct the option"
        )
    return value


def seconds(name: str, value: object, *, low: float = 0.0, high: float = 1e9) -> float:
    """An option that is a finite number of seconds from ``low`` to ``high``.

    Raises:
        TraceError: it is none.
    """
    is_number = type(value) is int or type(value) is float
    if not is_number or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        raise TraceError(
            f"{name} must be a number of seconds from {low:g} to {high:g}", got=repr(value), remedy="correct the option"
        )
    return float(value)  # type: ignore[arg-type]


def word(name: str, value: object) -> str:
    """An option that is text and not empty.

    Raises:
        TraceError: it is none.
    """
    if not isinstance(value, str) or not value:
        raise TraceError(f"{name} must be text", got=repr(value), remedy="correct the option")
    return value


def number_text(value: float) -> str:
    """A number as provenance shows it: exact, and without ``.0`` where it is whole."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
