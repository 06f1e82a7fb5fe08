"""scikit-learn's boosted trees on rows that are binned already."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.costs.reuse.rows import ReuseSettings

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier


def boosted(
    bins: npt.NDArray[np.uint8],
    reused: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float64],
    settings: ReuseSettings,
    seed: int,
) -> HistGradientBoostingClassifier:
    """The fitted trees; on one thread, for several contend with whatever else runs, and add in another order.

    Args:
        bins: ``(n_columns, n)`` bins of the features.
        reused: ``(n,)`` labels, of both kinds.
        weights: ``(n,)``.
        settings: How to fit.
        seed: Of scikit-learn's own choices.
    """
    trainer, one_thread = load_trainer()
    estimator = trainer(
        max_depth=settings.max_depth,
        max_iter=settings.trees,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.min_samples_leaf,
        l2_regularization=settings.l2,
        max_bins=settings.max_bins,
        early_stopping=False,
        random_state=seed,
    )
    with one_thread.limit(limits=1):
        return estimator.fit(bins.T, reused, sample_weight=weights)


@lru_cache(maxsize=1)
def load_trainer() -> tuple[Any, Any]:
    """The class that trains, and what limits its threads; the first call imports scikit-learn, most of a second."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import ThreadpoolController

    class OfBins(HistGradientBoostingClassifier):  # type: ignore[misc]
        """Takes bins for bins, where the class would sort each column to find the very same ones.

        Source: scikit-learn 1.4 to 1.9, ``BaseHistGradientBoosting._bin_data`` and the attributes of ``_BinMapper``. A
        version without that method bins the bins once more, which changes the time that it takes and nothing else.
        """

        def _bin_data(self, X: npt.NDArray[np.float64], *_args: Any, **_named: Any) -> npt.NDArray[np.uint8]:  # noqa: N803 - scikit-learn's name
            binned = np.asfortranarray(X, np.uint8)
            mapper = self._bin_mapper
            occurring = [np.flatnonzero(np.bincount(column)) for column in binned.T]
            mapper.bin_thresholds_ = [0.5 * (bins[1:] + bins[:-1]) for bins in occurring]
            mapper.n_bins_non_missing_ = np.array([len(bins) for bins in occurring], np.uint32)
            mapper.is_categorical_ = np.zeros(len(occurring), np.uint8)
            mapper.missing_values_bin_idx_ = mapper.n_bins - 1
            for column, bins in zip(binned.T, occurring, strict=True):
                if len(bins) <= bins[-1]:
                    column[:] = np.searchsorted(bins, np.arange(bins[-1] + 1))[column]
            return binned

    return OfBins, ThreadpoolController().select(user_api="openmp")
