"""What the seconds at stake contribute to a key, for all depths at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune_policies.kernels.decide import value_shift_ns, value_term_ns
from autotune_policies.kernels.jit import entry


@entry
def fill_value_terms(
    weight_ns: float, cost_weight: float, value_s: npt.NDArray[np.float64], terms_ns: npt.NDArray[np.int64]
) -> None:
    """Fill in ``terms_ns[d]``, the value term of a block at depth ``d`` that is worth ``value_s[d]`` seconds."""
    for depth in range(len(value_s)):
        terms_ns[depth] = value_term_ns(weight_ns, cost_weight, value_s[depth])


@entry
def fill_value_shifts(scale_ns: float, values_ns: npt.NDArray[np.int64], terms_ns: npt.NDArray[np.int64]) -> None:
    """Fill in ``terms_ns[d]``, by how much ``values_ns[d]`` at stake put off a fixed key."""
    for depth in range(len(values_ns)):
        terms_ns[depth] = value_shift_ns(scale_ns, values_ns[depth])
