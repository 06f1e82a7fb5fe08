"""Value terms of the rank rule for all depths at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune_policies.kernels.decide import value_term_ns
from autotune_policies.kernels.jit import entry


@entry
def fill_value_terms(
    weight_ns: float, cost_weight: float, value_s: npt.NDArray[np.float64], terms_ns: npt.NDArray[np.int64]
) -> None:
    """Fill in ``terms_ns[d]``, the value term of a block at depth ``d`` that is worth ``value_s[d]`` seconds."""
    for depth in range(len(value_s)):
        terms_ns[depth] = value_term_ns(weight_ns, cost_weight, value_s[depth])
