"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit

# Kernels allocate nothing and never outlive their caller, so counting references to the arrays that they are handed
# would be pure cost: an atomic operation per array and call, which made LRU four times slower. The option is spelled
# with an underscore in Numba, hence this one place.
# They also run without the interpreter lock, so that threads may simulate side by side.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}

# What Python calls: kept in the cache on disk, with everything that it calls inside.
entry = njit(**_OPTIONS, cache=True)

# What only other kernels call. Without the wrappers for callers from Python and C, each compiles four times as fast.
_INNER: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
compiled = njit(**_INNER)

# Functions over several tiers that few places call: compiled as part of their callers, which saves compiling the
# policies that they call once more.
inlined = njit(**_INNER, inline="always")

# Steps of a loop over blocks: a call would pass every array of the tier's state each time, which takes longer than the
# step itself.
step = njit(**_INNER, forceinline=True)

# Numba compiles a function anew for every combination of argument types, and takes an element of an int32 array, a
# constant and an int64 for three types. So integers that several functions share are widened where they come from.
as_int64 = cast("Callable[[int], int]", np.int64)


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that only kernels may call, made callable from Python, for tests."""

    def call(*args: Any) -> Any:
        return kernel(*args)

    function: Callable[..., Any] = njit(**_OPTIONS)(call)
    return function
