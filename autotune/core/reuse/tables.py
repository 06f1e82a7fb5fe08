"""The packed reuse model as the compiled loops take it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import N_FEATURES
from autotune.core.reuse.packed import PackedModel

# Entries of ``ints`` (int64).
KNOWN, N_NEAR, N_TABLES, NEAR_BASE, FAR_BASE = range(5)


class ModelArrays(NamedTuple):
    """See :class:`autotune.core.reuse.PackedModel`; ``ints`` has its scalars, ``bins`` is scratch."""

    ints: npt.NDArray[np.int64]
    cuts: npt.NDArray[np.float64]
    cuts_at: npt.NDArray[np.int32]
    tables: npt.NDArray[np.int32]
    maps: npt.NDArray[np.int32]
    scores: npt.NDArray[np.int64]
    near_cuts: npt.NDArray[np.int64]
    far_cuts: npt.NDArray[np.int64]
    bins: npt.NDArray[np.int32]


def model_arrays(packed: PackedModel | None) -> ModelArrays:
    """The arrays of a model, or those that say that there is none yet."""
    if packed is None:
        return ModelArrays(
            ints=np.zeros(5, np.int64),
            cuts=np.zeros(0),
            cuts_at=np.zeros(N_FEATURES + 1, np.int32),
            tables=np.zeros((0, 4), np.int32),
            maps=np.zeros(0, np.int32),
            scores=np.zeros(0, np.int64),
            near_cuts=np.zeros(3, np.int64),
            far_cuts=np.zeros((4, 3), np.int64),
            bins=np.zeros(N_FEATURES, np.int32),
        )
    scalars = (1, packed.n_near, len(packed.tables), packed.near_base, packed.far_base)
    return ModelArrays(
        ints=np.array(scalars, np.int64),
        cuts=packed.cuts,
        cuts_at=packed.cuts_at,
        tables=packed.tables,
        maps=packed.maps,
        scores=packed.scores,
        near_cuts=packed.near_cuts,
        far_cuts=packed.far_cuts,
        bins=np.zeros(N_FEATURES, np.int32),
    )
