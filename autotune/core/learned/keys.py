"""Ranks of one tier's blocks: those of one tick, or keys that do not change while a block lies idle."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.fixed import factor_shift_ns, odds_shift_ns, value_shift_ns
from autotune.core.decide.hazard import hazard_key
from autotune.core.decide.rank import RANK_LIMIT_NS
from autotune.core.learned.classifier import Classifier, OddsOfReuse
from autotune.core.learned.runs import Run
from autotune.core.reuse.packed import PackedModel
from autotune.core.types import RankForm
from autotune.core.units import NS_PER_S

IN_USE_KEY = RANK_LIMIT_NS
"""Rank of a block whose request has not finished, so that nothing is known of its rest."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedRules:
    """A learned rule, ready for use.

    Attributes:
        classifier: Finds the class of a run; for keys that do not change, the log odds of its reuse.
        edges_ns: ``(48,)`` ages between which the gain of a class is constant.
        gains: 16 rows of 49: best probability of reuse per second of stay, by class and age bin.
        tick_ns: How often all blocks are ranked anew.
        copy_factor: Factor on the host rank of a block that the device holds too.
        scale_ns: Nanoseconds by which one unit of logarithm puts a block off, for keys that do not change; 0 = blocks
            are ranked anew in every tick.
    """

    classifier: Classifier
    edges_ns: tuple[int, ...]
    gains: tuple[tuple[float, ...], ...]
    tick_ns: int
    copy_factor: float = 1.0
    scale_ns: float = 0.0

    @classmethod
    def of(
        cls,
        packed: PackedModel,
        tick_s: float,
        copy_factor: float = 1.0,
        gains: npt.NDArray[np.float64] | None = None,
        classifier: Classifier | None = None,
        form: RankForm = RankForm.HAZARD,
    ) -> LearnedRules:
        """The rule of a packed model.

        Args:
            packed: The model, with the gains of its classes.
            tick_s: How often all blocks are ranked anew.
            copy_factor: Factor on the rank of a block that the device holds too.
            gains: Other gains, such as those of the device.
            classifier: That of another tier under the same model, so that each run is classified once.
            form: Whether blocks are ranked anew in every tick, or once, when they become idle.
        """
        is_fixed = form is RankForm.FIXED_KEY
        return cls(
            classifier=classifier or (OddsOfReuse if is_fixed else Classifier)(packed),
            edges_ns=tuple(packed.edges_ns.tolist()),
            gains=tuple(tuple(row) for row in (packed.gains if gains is None else gains).tolist()),
            tick_ns=round(tick_s * NS_PER_S),
            copy_factor=copy_factor,
            scale_ns=packed.scale_ns if is_fixed else 0.0,
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
        return hazard_key(self._value_ns(depth), self.gain(self._classifier.of_unknown, idle_ns), 1.0)

    def gain(self, group: int, idle_ns: int) -> float:
        """Gain per second of stay of a class, for blocks that are idle since then."""
        return self._gains[group][bisect_right(self._edges_ns, self.began_ns - idle_ns)]


class FixedKeys:
    """Ranks that hold at any moment; see :mod:`autotune.core.decide.fixed`.

    Args:
        rules: The rule.
        value_ns: Nanoseconds that a hit saves, by depth.
    """

    __slots__ = ("_classifier", "_copy_ns", "_run", "_scale_ns", "_shift_ns", "_terms_ns", "_value_ns", "rules")

    began_ns, ends_ns = 0, 2**63 - 1

    def __init__(self, rules: LearnedRules, value_ns: Callable[[int], int]) -> None:
        self.rules = rules
        self._value_ns, self._classifier, self._scale_ns = value_ns, rules.classifier, rules.scale_ns
        self._copy_ns = factor_shift_ns(rules.scale_ns, rules.copy_factor) if rules.copy_factor < 1.0 else 0
        self._terms_ns: dict[int, int] = {}
        self._run: Run | None = None
        self._shift_ns = 0

    def key(self, run: Run, depth: int, is_copy: bool) -> int:
        """Rank of a block; the smallest leaves first.

        Args:
            run: The run that it stands in.
            depth: Its position in its chain.
            is_copy: Whether it is a copy of a block that the device holds too.
        """
        if run is not self._run:
            self._shift_ns = odds_shift_ns(self._scale_ns, self._classifier.group_of(run))
            self._run = run
        return run.idle_ns + self._shift_ns + self._term_ns(depth) + (self._copy_ns if is_copy else 0)

    def key_of_unknown(self, idle_ns: int, depth: int) -> int:
        """Rank of a block of which nothing but its last use is known."""
        return idle_ns + odds_shift_ns(self._scale_ns, self._classifier.of_unknown) + self._term_ns(depth)

    def _term_ns(self, depth: int) -> int:
        term_ns = self._terms_ns.get(depth)
        if term_ns is None:
            term_ns = self._terms_ns[depth] = value_shift_ns(self._scale_ns, self._value_ns(depth))
        return term_ns


Keys = HazardKeys | FixedKeys
"""Ranks by either form of the rule."""


def keys_at(rules: LearnedRules, value_ns: Callable[[int], int], now_ns: int) -> Keys:
    """The ranks that hold at a moment.

    Args:
        rules: The rule.
        value_ns: Nanoseconds that a hit saves, by depth.
        now_ns: The moment.
    """
    return FixedKeys(rules, value_ns) if rules.scale_ns > 0.0 else HazardKeys(rules, value_ns, now_ns)
