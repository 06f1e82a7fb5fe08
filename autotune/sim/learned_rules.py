"""What a simulated engine under a learned policy is given: the rule in force, and what clients told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.core.reuse.packed import PackedModel
from autotune.core.types import RankForm, StoreMode


@dataclass(frozen=True, slots=True)
class HazardRules:
    """A learned rule in force.

    Attributes:
        packed: The reuse model, with the gains of its classes on the host.
        device_gains: ``(n_classes, n_age_bins)`` the gains on the device.
        tick_s: How often residents are ranked anew.
        copy_factor: Factor on the host rank of a block that the device holds too; 0 = such copies leave first.
        marginal: Whether a block comes to the host only if it outranks the one that would go.
        form: Whether blocks are ranked anew in every tick, or once, when they become idle.
    """

    packed: PackedModel
    device_gains: npt.NDArray[np.float64]
    tick_s: float
    copy_factor: float = 1.0
    marginal: bool = True
    form: RankForm = RankForm.HAZARD

    def for_stores(self, mode: StoreMode) -> HazardRules:
        """The rules under a store mode: with eager stores every block is a copy when it comes, so none counts less."""
        return replace(self, copy_factor=1.0) if mode is StoreMode.EAGER else self


@dataclass(frozen=True, slots=True)
class Hints:
    """What clients told about each request; -1 is unknown.

    Attributes:
        session_end: ``(n_requests,)`` 1 if the session ends with it, 0 if not.
        expected_idle_s: ``(n_requests,)`` seconds until the client expects to come back.
        priority: ``(n_requests,)``.
    """

    session_end: npt.NDArray[np.int64] | None = None
    expected_idle_s: npt.NDArray[np.float64] | None = None
    priority: npt.NDArray[np.int64] | None = None
