"""Whole requests out of functions for one block, for the policies that need no better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core.state import CAPACITY, SIZE, TierState
from autotune_policies.kernels.jit import as_int64, compiled


def refresh_with(use: Callable[[TierState, int, bool], None]) -> Any:
    """The ``refresh`` of a policy whose ``use`` takes one block and whether it may come in if it is missing."""

    @compiled
    def refresh(s: TierState, ids: npt.NDArray[np.int32], lo: int, last: int, stride: int, may_insert: bool) -> None:
        for i in range(last, lo - 1, -stride):
            use(s, as_int64(ids[i]), may_insert)

    return refresh


def shrink_with(evict: Callable[[TierState], int]) -> Any:
    """The ``shrink`` of a policy whose ``evict`` lets one block go and returns it, -1 if all are pinned."""

    @compiled
    def shrink(s: TierState, reserved: int) -> int:
        n = 0
        while n < s.victims.shape[0] and s.ints[SIZE] + reserved > s.ints[CAPACITY]:
            b = evict(s)
            if b < 0:
                break
            s.victims[n] = b
            n += 1
        return n

    return shrink
