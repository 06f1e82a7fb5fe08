"""Ranks of one tier's blocks within one tick."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.hazard import hazard_key
from autotune.core.decide.rank import RANK_LIMIT_NS
from autotune.core.learned.classifier import Classifier
from autotune.core.learned.runs import Run
from autotune.core.reuse.packed import PackedModel
from autotune.core.units import NS_PER_S

IN_USE_KEY = RANK_LIMIT_NS
"""Rank of a block whose request has not finished, so that nothing is known of its rest."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedRules:
    """A learned rule, ready for use.

    Attributes:
        classifier: Finds the class of a run.
        edges_ns: ``(48,)`` ages between which the gain of a class is constant.
        gains: 16 rows of 49: best probability of reuse per second of stay, by class and age bin.
        tick_ns: How often all blocks are ranked anew.
        copy_factor: Factor on the host rank of a block that the device holds too.
    """

    classifier: Classifier
    edges_ns: tuple[int, ...]
    gains: tuple[tuple[float, ...], ...]
    tick_ns: int
    copy_factor: float = 1.0

    @classmethod
    def of(
        cls,
        packed: PackedModel,
        tick_s: float,
        copy_factor: float = 1.0,
        gains: npt.NDArray[np.float64] | None = None,
        classifier: Classifier | None = None,
    ) -> LearnedRules:
        """The rule of a packed model.

        Args:
            packed: The model, with the gains of its classes.
            tick_s: How often all blocks are ranked anew.
            copy_factor: Factor on the rank of a block that the device holds too.
            gains: Other gains, such as those of the device.
            classifier: That of another tier under the same model, so that each run is classified once.
        """
        return cls(
            classifier=classifier or Classifier(packed),
            edges_ns=tuple(packed.edges_ns.tolist()),
            gains=tuple(tuple(row) for row in (packed.gains if gains is None else gains).tolist()),
            tick_ns=round(tick_s * NS_PER_S),
            copy_factor=copy_factor,
        )


class HazardKeys:
    """Ranks in the tick that a moment falls into.

    Args:
        rules: The rule.
        value_ns: Nanoseconds that a hit saves, by depth.
        now_ns: The moment.
    """

    __slots__ = ("_classifier", "_edges_ns", "_gain", "_gains", "_run", "_value_ns", "began_ns", "ends_ns", "rules")

    def __init__(self, rules: LearnedRules, value_ns: Callable[[int], int], now_ns: int) -> None:
        self.rules = rules
        self.began_ns = now_ns // rules.tick_ns * rules.tick_ns
        self.ends_ns = self.began_ns + rules.tick_ns
        self._value_ns = value_ns
        self._classifier, self._edges_ns, self._gains = rules.classifier, rules.edges_ns, rules.gains
        # Blocks of a run share everything but their depth.
        self._run: Run | None = None
        self._gain = 0.0

    def key(self, run: Run, depth: int, is_copy: bool) -> int:
        """Rank of a block; the smallest leaves first.

        Args:
            run: The run that it stands in.
            depth: Its position in its chain.
            is_copy: Whether it is a copy of a block that the device holds too.
        """
        if run is not self._run:
            self._gain = self.gain(self._classifier.group_of(run), run.idle_ns)
            self._run = run
        return hazard_key(self._value_ns(depth), self._gain, self.rules.copy_factor if is_copy else 1.0)

    def key_of_unknown(self, idle_ns: int, depth: int) -> int:
        """Rank of a block of which nothing but its last use is known: it counts to the class that is used least."""
        return hazard_key(self._value_ns(depth), self.gain(0, idle_ns), 1.0)

    def gain(self, group: int, idle_ns: int) -> float:
        """Gain per second of stay of a class, for blocks that are idle since then."""
        return self._gains[group][bisect_right(self._edges_ns, self.began_ns - idle_ns)]
