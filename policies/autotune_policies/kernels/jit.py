"""How kernels are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

# Kernels allocate nothing and never outlive their caller, so counting references to the arrays that they are handed
# would be pure cost: an atomic operation per array and call, which made LRU four times slower. The option is spelled
# with an underscore in Numba, hence this one place.
# They also run without the interpreter lock, so that threads may simulate side by side.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
compiled = njit(**_OPTIONS)
