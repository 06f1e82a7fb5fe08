"""How soon blocks are used again: the empirical hazard by age, from accesses as they come, in bounded memory.

A block that has not come back yet is no proof that it never will: its idle time so far counts as exposure (censoring).
Only blocks whose hash falls below a threshold are followed, and the threshold halves whenever there would be too many,
so memory is bounded and what is left is still a fair sample. Blocks of one request come back together; the interval
counts them as one event. What was long ago counts less, by the time at which it happened: half for every half-life.

Source: the piecewise-exponential estimator, events over exposure per interval of age, Kalbfleisch and Prentice, "The
Statistical Analysis of Failure Time Data", section 4.7.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.sketch import sketch_hash
from autotune.core.errors import ConfigError
from autotune.core.estimates import Estimate, poisson_interval

Column = npt.NDArray[np.float64]

MAX_FOLLOWED = 20_000
HALF_LIFE_S = 6 * 3_600.0
_REBASE_HALF_LIVES = 64.0
_Z = 1.959963984540054
_CERTAIN = 1e3  # more reuses than this are expected where the probability is 1 to the last bit
_EVENTS, _SQUARES, _ENDED, _PARTIAL_S = range(4)


def age_edges_s(shortest_s: float = 0.25, longest_s: float = 86_400.0, n_edges: int = 48) -> tuple[float, ...]:
    """Ages at which the intervals begin, evenly in their logarithm; below the first lies one more interval."""
    return tuple(np.geomspace(shortest_s, longest_s, n_edges).tolist())


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """Hazard of reuse by age, as far as any block was ever idle.

    Attributes:
        starts_s: ``(n,)`` age at which each interval begins.
        widths_s: ``(n,)`` its length; the last one's is the exposure per block in it.
        hazard_per_s: ``(n,)`` reuses per second of idle time.
        low_per_s: ``(n,)`` lower end of the 95 % interval.
        high_per_s: ``(n,)`` upper end.
        events: ``(n,)`` reuses seen, each of a run counted as one, older ones faded.
        samples: Reuses of followed blocks seen at all.
        followed_frac: Share of blocks that are followed now.
        age_s: Seconds since the newest observation; ``None`` = there is none.
    """

    starts_s: Column
    widths_s: Column
    hazard_per_s: Column
    low_per_s: Column
    high_per_s: Column
    events: Column
    samples: int
    followed_frac: float
    age_s: float | None

    def within(self, horizon_s: float) -> Estimate:
        """Probability that a block that becomes idle now is used again within ``horizon_s``.

        Beyond the longest idle time that was seen nothing more is expected, and the interval reaches to 1.
        """
        inside_s = np.clip(horizon_s - self.starts_s, 0.0, self.widths_s)
        expected = np.minimum(inside_s * self.hazard_per_s, _CERTAIN)
        total = float(expected.sum())
        error = float(np.sqrt((expected**2 / np.maximum(self.events, 1.0)).sum()))
        longest_s = float((self.starts_s + self.widths_s).max(initial=0.0))
        beyond = horizon_s > longest_s * (1.0 + 1e-9)
        unseen = float(np.minimum(inside_s * self.high_per_s, _CERTAIN)[self.events <= 0.0].sum())
        high = 1.0 if beyond else -math.expm1(-(total + _Z * error + unseen))
        value, low = -math.expm1(-total), -math.expm1(-max(0.0, total - _Z * error))
        name, source = f"reuse_within_{horizon_s:g}_s", f"{self.samples} reuses, {self.followed_frac:.3g} of all blocks"
        return Estimate(name, value, low, max(high, value), "1", self.samples, self.age_s, source)


class ReuseGaps:
    """Follows a sample of blocks from use to use.

    Args:
        edges_s: Ages at which intervals begin, ascending.
        max_followed: Most blocks that are followed at once.
        half_life_s: Time in which an observation loses half its weight.

    Raises:
        ConfigError: edges that do not ascend from above 0, or a bound that leaves nothing.
    """

    def __init__(
        self,
        edges_s: Sequence[float] = age_edges_s(),
        max_followed: int = MAX_FOLLOWED,
        half_life_s: float = HALF_LIFE_S,
    ) -> None:
        edges = np.array([0.0, *edges_s])
        if len(edges) < 2 or not (np.diff(edges) > 0.0).all() or max_followed < 1 or not half_life_s > 0.0:
            raise ConfigError(
                "ages ascend from above 0, and at least one block is followed for some time",
                got=f"{len(edges) - 1} ages, {max_followed} blocks, half-life {half_life_s} s",
            )
        self._edges_s = edges
        self._edge_list_s = edges.tolist()
        self._widths_s = np.append(np.diff(edges), np.inf)
        self._max_followed = max_followed
        self._half_life_s = half_life_s
        self._last_s: dict[int, float] = {}
        self._threshold = 2**32
        # By age: reuses, and the squares of how many came together; idle times that ended there, reused or not, and how
        # far into that interval they went, summed. An idle time weighs 2 ** (its beginning / half-life), and what
        # happened at some age of it as much more as that age is later.
        self._sums = np.zeros((4, len(edges)))
        self._later = np.exp2(np.minimum(edges / half_life_s, _REBASE_HALF_LIVES))
        self._base_s = 0.0
        self._newest_s: float | None = None
        self.samples = 0

    @property
    def followed_frac(self) -> float:
        """Share of blocks that are followed."""
        return self._threshold / 2**32

    def __len__(self) -> int:
        return len(self._last_s)

    def observe(self, at_s: float, blocks: Sequence[int]) -> None:
        """One request used these blocks; a time before the last one counts as the last one's."""
        at_s = at_s if self._newest_s is None else max(at_s, self._newest_s)
        self._newest_s = at_s
        self._rebase(at_s)
        came: dict[int, float] = {}
        for block in blocks:
            if sketch_hash(block ^ (block >> 32)) >= self._threshold:
                continue
            before_s = self._last_s.pop(block, None)
            self._last_s[block] = at_s
            if before_s is not None:
                place, weight = self._end(before_s, at_s)
                came[place] = came.get(place, 0.0) + weight * float(self._later[place])
                self.samples += 1
        for place, weight in came.items():
            self._sums[_EVENTS, place] += weight
            self._sums[_SQUARES, place] += weight * weight
        self._bound(at_s)

    def restart(self) -> None:
        """Nothing that comes is joined to what was, as after a reset of the cache; what was learned stays."""
        if self._newest_s is not None:
            self._censor(list(self._last_s), self._newest_s)

    def curve(self, now_s: float) -> ReuseCurve:
        """The hazard as of now, idle blocks counted as not reused yet."""
        sums = self._sums.copy()
        last_s = np.fromiter(self._last_s.values(), np.float64, len(self._last_s))
        idle_s, weights = np.maximum(now_s - last_s, 0.0), self._weight(last_s)
        places = np.searchsorted(self._edges_s, idle_s, side="right") - 1
        np.add.at(sums[_ENDED], places, weights)
        np.add.at(sums[_PARTIAL_S], places, weights * (idle_s - self._edges_s[places]))
        # Idle times that went through each interval and beyond; none goes beyond the last, whose width is infinite.
        passed = np.append(np.cumsum(sums[_ENDED, :0:-1])[::-1], 0.0)
        through_s = np.multiply(self._widths_s, passed, out=np.zeros_like(passed), where=passed > 0.0)
        exposure_s = (sums[_PARTIAL_S] + through_s) * self._later
        n = int(np.argmin(exposure_s > 0.0)) if not (exposure_s > 0.0).all() else len(exposure_s)
        at_risk = ((sums[_ENDED] + passed) * self._later)[:n]
        return self._curve(sums[:, :n], exposure_s[:n], at_risk, now_s)

    def _curve(self, sums: Column, exposure_s: Column, at_risk: Column, now_s: float) -> ReuseCurve:
        n, events, squares = len(exposure_s), sums[_EVENTS], sums[_SQUARES]
        requests = np.divide(events**2, squares, out=np.zeros(n), where=squares > 0.0)
        size = np.divide(events, requests, out=np.full(n, float(self._weight(now_s))), where=requests > 0.0)
        ends = [poisson_interval(float(r), float(e)) for r, e in zip(requests, exposure_s, strict=True)]
        low, high = np.array(ends).reshape(n, 2).T * size
        widths_s = self._widths_s[:n].copy()
        widths_s[-1:] = np.minimum(widths_s[-1:], exposure_s[-1:] / at_risk[-1:])
        age_s = None if self._newest_s is None else max(0.0, now_s - self._newest_s)
        hazard = events / exposure_s
        about = (requests, self.samples, self.followed_frac, age_s)
        return ReuseCurve(self._edges_s[:n], widths_s, hazard, low, high, *about)

    def _end(self, from_s: float, to_s: float) -> tuple[int, float]:
        """One idle time is over; the interval of age in which it ended, and its weight."""
        weight, idle_s = float(self._weight(from_s)), to_s - from_s
        place = bisect_right(self._edge_list_s, idle_s) - 1
        self._sums[_ENDED, place] += weight
        self._sums[_PARTIAL_S, place] += weight * (idle_s - self._edge_list_s[place])
        return place, weight

    def _weight(self, from_s: Column | float) -> Column:
        return np.asarray(np.exp2((from_s - self._base_s) / self._half_life_s))

    def _bound(self, now_s: float) -> None:
        while len(self._last_s) > self._max_followed:
            self._threshold //= 2
            self._censor([b for b in self._last_s if sketch_hash(b ^ (b >> 32)) >= self._threshold], now_s)
        # The dictionary is in order of last use, so what has been idle for too long stands in front.
        while self._last_s:
            block = next(iter(self._last_s))
            if now_s - self._last_s[block] <= self._edges_s[-1]:
                break
            self._censor([block], now_s)

    def _censor(self, blocks: Sequence[int], now_s: float) -> None:
        for block in blocks:
            from_s = self._last_s.pop(block)
            self._end(from_s, max(from_s, now_s))

    def _rebase(self, now_s: float) -> None:
        """Keep weights in range: they double with every half-life."""
        passed = (now_s - self._base_s) / self._half_life_s
        if abs(passed) > _REBASE_HALF_LIVES:
            fading = min(max(passed, 0.0), 1_000.0)  # below 0 the clock was set back: what was seen keeps its weight
            self._sums *= np.exp2(-fading)
            self._sums[_SQUARES] *= np.exp2(-fading)
            self._base_s = now_s
