"""Logarithm and exponential to base 2 from basic IEEE operations only.

``math.log2`` and ``math.exp2`` come from whichever C library, compiler or vector library runs them and may differ in
the last bit; a rank that is rounded to whole nanoseconds would then differ too. These two use additions,
multiplications, one division and exact scaling by powers of two, which every IEEE machine rounds alike.
"""

from __future__ import annotations

import math
from typing import Any

_SQRT_HALF = 0.7071067811865476
_LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


def log2_exactly_rounded_ops(x: float) -> float:
    """Logarithm to base 2 of ``x`` > 0, within 1e-13 relative to max(1, |result|).

    Source: ln m = 2 artanh((m - 1) / (m + 1)) as its power series, on m in [sqrt(1/2), sqrt(2)).
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    z = (mantissa - 1.0) / (mantissa + 1.0)
    y = z * z
    series = 1.0 / 17.0
    series = series * y + 1.0 / 15.0
    series = series * y + 1.0 / 13.0
    series = series * y + 1.0 / 11.0
    series = series * y + 1.0 / 9.0
    series = series * y + 1.0 / 7.0
    series = series * y + 1.0 / 5.0
    series = series * y + 1.0 / 3.0
    series = series * y + 1.0
    return exponent + 2.0 * z * series * _LOG2_E


def exp2_exactly_rounded_ops(x: float) -> float:
    """2**x for x in [-1022, 1023], within 1e-13 relative; 0.0 below that range.

    Source: the power series of e**(f ln 2) on f in [-1/2, 1/2], scaled by the whole part.
    """
    if x < -1022.0:
        return 0.0
    whole = math.floor(x + 0.5)
    return math.ldexp(exp_series((x - whole) * LN_2), int(whole))


def exp_series(u: Any) -> Any:
    """e**u for u in [-ln 2 / 2, ln 2 / 2], of a number, or of each in an array, to the same bit."""
    series = 1.0 / 6227020800.0
    series = series * u + 1.0 / 479001600.0
    series = series * u + 1.0 / 39916800.0
    series = series * u + 1.0 / 3628800.0
    series = series * u + 1.0 / 362880.0
    series = series * u + 1.0 / 40320.0
    series = series * u + 1.0 / 5040.0
    series = series * u + 1.0 / 720.0
    series = series * u + 1.0 / 120.0
    series = series * u + 1.0 / 24.0
    series = series * u + 1.0 / 6.0
    series = series * u + 1.0 / 2.0
    series = series * u + 1.0
    return series * u + 1.0
