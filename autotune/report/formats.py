"""Numbers as people read them; memory in GiB and times in a fitting unit exist here and nowhere further inside."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.units import MS_PER_S, bytes_to_gib

ABSENT = "–"
_MINUS = "−"
_S_PER_MIN = 60.0
_S_PER_H = 3600.0


def number(value: float | None, decimals: int = 0) -> str:
    """A number with separated thousands; a dash where there is none."""
    if value is None:
        return ABSENT
    # Adding zero turns a rounded −0.0 into 0.0, which has no sign to show.
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", _MINUS)


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as the figure alone, for columns whose heading has the unit."""
    return ABSENT if share is None else number(100.0 * share, decimals)


def with_percent(share: float | None, decimals: int = 1) -> str:
    """A share with its sign, as ``6.1 %``; small ones get a second decimal."""
    if share is None:
        return ABSENT
    if 0.0 < abs(share) < 0.01:
        decimals = max(decimals, 2)
    return f"{percent(share, decimals)} %"


def gib(size_bytes: float) -> str:
    """Bytes in GiB with three significant figures."""
    size_gib = bytes_to_gib(size_bytes)
    return f"{number(size_gib, _decimals(size_gib))} GiB"


def milliseconds(time_s: float | None) -> str:
    """Seconds as milliseconds, the figure alone."""
    return ABSENT if time_s is None else number(time_s * MS_PER_S)


def printable(text: str) -> str:
    """A text of unknown origin on one line, without terminal codes, reversing marks, and what cannot be encoded."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time and how many seconds it has."""

    name: str
    seconds: float


def time_unit(span_s: float) -> TimeUnit:
    """The unit in which a span is read without counting digits."""
    if span_s < 1.0:
        return TimeUnit("ms", 1.0 / MS_PER_S)
    if span_s < 2.0 * _S_PER_MIN:
        return TimeUnit("s", 1.0)
    if span_s < 2.0 * _S_PER_H:
        return TimeUnit("min", _S_PER_MIN)
    return TimeUnit("h", _S_PER_H)


def duration(time_s: float) -> str:
    """A span of time in a fitting unit, as ``36.5 min``."""
    unit = time_unit(abs(time_s))
    value = time_s / unit.seconds
    return f"{number(value, min(_decimals(value), 1))} {unit.name}"


def seconds_decimals(largest_s: float) -> int:
    """Decimals for a column of seconds whose largest magnitude is this."""
    return _decimals(largest_s)


def _decimals(value: float) -> int:
    """Decimals that leave about three significant figures."""
    if abs(value) >= 100.0:
        return 0
    return 1 if abs(value) >= 10.0 else 2
