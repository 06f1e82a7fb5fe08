"""The newest observations of one kind: bounded in number and in age."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.errors import ConfigError


class SampleWindow:
    """Rows of numbers with the time of each; the oldest go first. Memory is fixed from the start.

    Args:
        n_columns: Numbers per row.
        max_samples: Most rows that are kept.
        window_s: Rows older than this no longer count.

    Raises:
        ConfigError: the window holds nothing.
    """

    def __init__(self, n_columns: int, max_samples: int, window_s: float) -> None:
        if max_samples < 1 or not window_s > 0.0:
            raise ConfigError(
                "a window holds at least one sample and some time", got=f"{max_samples} samples, {window_s} s"
            )
        self._rows = np.zeros((max_samples, n_columns + 1))
        self._window_s = window_s
        self._next = 0
        self.seen = 0
        self.newest_s = -np.inf

    def add(self, at_s: float, *row: float) -> None:
        """Take in one observation; times need not ascend."""
        self._rows[self._next] = (at_s, *row)
        self._next = (self._next + 1) % len(self._rows)
        self.seen += 1
        self.newest_s = max(self.newest_s, at_s)

    def columns(self, now_s: float) -> npt.NDArray[np.float64]:
        """``(1 + n_columns, n_rows)`` of what counts now, times first, in no particular order."""
        kept = self._rows[: min(self.seen, len(self._rows))]
        return kept[kept[:, 0] > now_s - self._window_s].T

    def age_s(self, now_s: float) -> float | None:
        """Seconds since the newest observation; ``None`` if there was none."""
        return max(0.0, now_s - self.newest_s) if self.seen else None

    def clear(self) -> None:
        """Forget all, as after a change of the model."""
        self._next = self.seen = 0
        self.newest_s = -np.inf
