"""Requests drawn from a ServeGen client's statistics.

A window gets exactly as many requests as its measured rate says. Their gaps come from the measured family and shape,
scaled so that they fill the window: the published scales are fits that miss the measured rate, some by a factor of two.
ServeGen itself scales in the same way.

Source: alibaba/ServeGen, servegen/construct.py (``_sample_iats``, ``_sample_data_batch``).
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.units import NS_PER_S
from autotune.traces.columns import Columns
from autotune.traces.lengths import Lengths, PromptPart

FAMILIES = ("Gamma", "Weibull")
MAX_REQUESTS = 20_000_000
_ONLY_WINDOW_S = 600.0


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time with one arrival process; ``family`` is empty where nothing arrives."""

    start_s: float
    rate_per_s: float
    family: str
    shape: float


@dataclass(frozen=True, slots=True)
class Client:
    """One client.

    Attributes:
        windows: Arrivals in order of time.
        lengths: Start of validity (s) to the distributions of the parts of a prompt and of the output, in order.
    """

    windows: list[Window]
    lengths: dict[float, tuple[list[PromptPart], Lengths]]


def draw(columns: Columns, client: Client, random: np.random.Generator, start_s: float, end_s: float) -> None:
    """Add the client's requests between two times to ``columns``.

    Raises:
        TraceError: ``columns`` would hold more than ``MAX_REQUESTS``.
    """
    valid_from = list(client.lengths)
    for window, stop_s in _with_ends(client.windows):
        low_s, high_s = max(window.start_s, start_s), min(stop_s, end_s)
        place = bisect.bisect_right(valid_from, window.start_s) - 1
        if low_s >= high_s or not window.family or place < 0:
            continue
        n_requests = round(window.rate_per_s * (high_s - low_s))
        _require_few(len(columns) + n_requests)
        time_ns = np.rint((low_s + (high_s - low_s) * _shares(window, n_requests, random)) * NS_PER_S)
        prompt, output = client.lengths[valid_from[place]]
        input_tokens = np.sum([part.draw(random, n_requests) for part in prompt], axis=0)
        output_tokens = output.draw(random, n_requests)
        for request in zip(
            time_ns.astype(np.int64).tolist(), input_tokens.tolist(), output_tokens.tolist(), strict=True
        ):
            columns.add(*request)


def _with_ends(windows: Sequence[Window]) -> list[tuple[Window, float]]:
    """Windows with the time at which the next one begins; the last is as long as the one before."""
    if not windows:
        return []
    starts = [window.start_s for window in windows]
    last_s = starts[-1] - starts[-2] if len(starts) > 1 else _ONLY_WINDOW_S
    ends = [after for _, after in pairwise(starts)] + [starts[-1] + last_s]
    return list(zip(windows, ends, strict=True))


def _shares(window: Window, n_requests: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Arrivals as shares of the window, ``(n_requests,)``: the gaps, with one more after the last, fill it."""
    sample = random.standard_gamma if window.family == "Gamma" else random.weibull
    gaps = sample(window.shape, n_requests + 1)
    total = gaps.sum()
    if total <= 0:  # all gaps of a tiny shape underflowed
        return np.zeros(n_requests)
    shares: npt.NDArray[np.float64] = np.cumsum(gaps)[:-1] / total
    return shares


def _require_few(n_requests: int) -> None:
    if n_requests > MAX_REQUESTS:
        raise TraceError(
            f"at most {MAX_REQUESTS:,} requests are drawn", got=f"{n_requests:,}", remedy="choose a shorter duration_s"
        )
