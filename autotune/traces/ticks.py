"""How coarse the clock of a trace was."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MIN_GAPS = 8
_COARSE_RATIO = 100
_JITTER_UNITS = 2


def resolution(time: npt.NDArray[np.int64]) -> int:
    """Distance between two ticks of the clock that wrote these times.

    It is the greatest common divisor of the time differences. A coarse clock that was converted on the way leaves
    times a unit beside its ticks, which would hide it: Mooncake's conversation trace ticks every 3,000 ms but shows
    2,999 and 3,001 as well. So where all times lie within two units of multiples of the median gap, and that gap is at
    least a hundred times the divisor, the tick is the median gap.

    Args:
        time: ``(n_requests,)`` times in integer units, never decreasing.

    Returns:
        The tick in units; 1 where there are too few distinct times to tell.
    """
    distinct = np.unique(time - time[0])
    gaps = np.diff(distinct)
    if len(gaps) < _MIN_GAPS:
        return 1
    divisor = int(np.gcd.reduce(gaps))
    median = int(np.median(gaps))
    if median >= _COARSE_RATIO * divisor:
        offset = (distinct + median // 2) % median - median // 2
        if int(np.abs(offset).max()) <= _JITTER_UNITS * divisor:
            return median
    return divisor
